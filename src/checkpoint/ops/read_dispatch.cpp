// Notes the tensors that the most common operators read: Note [What a region reads must not
// change]. All others are observed through boxed calls (write_dispatch.cpp), which cost more.
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/read_log.h"

#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/_to_copy_ops.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bitwise_and_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/constant_pad_nd_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/elu_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/hardtanh_ops.h>
#include <ATen/ops/index_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/leaky_relu_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/log_sigmoid_forward_ops.h>
#include <ATen/ops/logical_not_ops.h>
#include <ATen/ops/logsumexp_ops.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/mv_ops.h>
#include <ATen/ops/native_group_norm_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/rsub_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sign_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_ops.h>
#include <ATen/ops/where_ops.h>
#include <torch/library.h>

#include <optional>
#include <type_traits>

namespace reprise::detail {
namespace {

constexpr c10::DispatchKeySet kBelowReads(c10::DispatchKeySet::FULL_AFTER, kWriteKey);

template <class T>
void note_argument(const T&) {}
void note_argument(const at::Tensor& tensor) {
  ReadGuard::note(tensor);
}
void note_argument(const std::optional<at::Tensor>& tensor) {
  if (tensor) {
    ReadGuard::note(*tensor);
  }
}
void note_argument(const at::ITensorListRef& tensors) {
  for (const auto& tensor : tensors) {
    ReadGuard::note(tensor);
  }
}
void note_argument(const c10::List<std::optional<at::Tensor>>& tensors) {
  for (const std::optional<at::Tensor>& tensor : tensors) {
    note_argument(tensor);
  }
}

template <class Op, class Signature = typename Op::schema>
struct Reads;
template <class Op, class Result, class... Args>
struct Reads<Op, Result(Args...)> {
  static Result call(c10::DispatchKeySet keys, Args... args) {
    if (!ReadGuard::notes()) {
      return Op::redispatch(keys & kBelowReads, args...);
    }
    (note_argument(args), ...);
    if constexpr (std::is_same_v<Result, at::Tensor>) {
      auto result = Op::redispatch(keys & kBelowReads, args...);
      ReadGuard::note_made(result);
      return result;
    } else {
      return Op::redispatch(keys & kBelowReads, args...);
    }
  }
};

}  // namespace
}  // namespace reprise::detail

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the name in C++ and that of the operator differ
#define REPRISE_READS(op, name) m.impl(name, TORCH_FN((reprise::detail::Reads<at::_ops::op>::call)))

TORCH_LIBRARY_IMPL(aten, DeferredInit, m) {
  REPRISE_READS(mm, "mm");
  REPRISE_READS(addmm, "addmm");
  REPRISE_READS(bmm, "bmm");
  REPRISE_READS(baddbmm, "baddbmm");
  REPRISE_READS(mv, "mv");
  REPRISE_READS(dot, "dot");
  REPRISE_READS(addmv, "addmv");
  REPRISE_READS(add_Tensor, "add.Tensor");
  REPRISE_READS(sub_Tensor, "sub.Tensor");
  REPRISE_READS(mul_Tensor, "mul.Tensor");
  REPRISE_READS(div_Tensor, "div.Tensor");
  REPRISE_READS(add_Scalar, "add.Scalar");
  REPRISE_READS(sub_Scalar, "sub.Scalar");
  REPRISE_READS(mul_Scalar, "mul.Scalar");
  REPRISE_READS(div_Scalar, "div.Scalar");
  REPRISE_READS(rsub_Scalar, "rsub.Scalar");
  REPRISE_READS(pow_Tensor_Scalar, "pow.Tensor_Scalar");
  REPRISE_READS(pow_Tensor_Tensor, "pow.Tensor_Tensor");
  REPRISE_READS(neg, "neg");
  REPRISE_READS(exp, "exp");
  REPRISE_READS(log, "log");
  REPRISE_READS(log1p, "log1p");
  REPRISE_READS(sqrt, "sqrt");
  REPRISE_READS(rsqrt, "rsqrt");
  REPRISE_READS(reciprocal, "reciprocal");
  REPRISE_READS(abs, "abs");
  REPRISE_READS(sign, "sign");
  REPRISE_READS(sin, "sin");
  REPRISE_READS(cos, "cos");
  REPRISE_READS(tanh, "tanh");
  REPRISE_READS(sigmoid, "sigmoid");
  REPRISE_READS(erf, "erf");
  REPRISE_READS(relu, "relu");
  REPRISE_READS(gelu, "gelu");
  REPRISE_READS(silu, "silu");
  REPRISE_READS(leaky_relu, "leaky_relu");
  REPRISE_READS(elu, "elu");
  REPRISE_READS(softplus, "softplus");
  REPRISE_READS(hardtanh, "hardtanh");
  REPRISE_READS(threshold, "threshold");
  REPRISE_READS(clamp, "clamp");
  REPRISE_READS(log_sigmoid_forward, "log_sigmoid_forward");
  REPRISE_READS(_softmax, "_softmax");
  REPRISE_READS(_log_softmax, "_log_softmax");
  REPRISE_READS(native_layer_norm, "native_layer_norm");
  REPRISE_READS(native_group_norm, "native_group_norm");
  REPRISE_READS(convolution, "convolution");
  REPRISE_READS(embedding, "embedding");
  REPRISE_READS(index_Tensor, "index.Tensor");
  REPRISE_READS(index_select, "index_select");
  REPRISE_READS(gather, "gather");
  REPRISE_READS(cat, "cat");
  REPRISE_READS(where_self, "where.self");
  REPRISE_READS(masked_fill_Scalar, "masked_fill.Scalar");
  REPRISE_READS(masked_fill_Tensor, "masked_fill.Tensor");
  REPRISE_READS(mean, "mean");
  REPRISE_READS(mean_dim, "mean.dim");
  REPRISE_READS(sum, "sum");
  REPRISE_READS(sum_dim_IntList, "sum.dim_IntList");
  REPRISE_READS(amax, "amax");
  REPRISE_READS(max_dim, "max.dim");
  REPRISE_READS(logsumexp, "logsumexp");
  REPRISE_READS(cumsum, "cumsum");
  REPRISE_READS(_to_copy, "_to_copy");
  REPRISE_READS(clone, "clone");
  REPRISE_READS(addcmul, "addcmul");
  REPRISE_READS(addcdiv, "addcdiv");
  REPRISE_READS(eq_Scalar, "eq.Scalar");
  REPRISE_READS(eq_Tensor, "eq.Tensor");
  REPRISE_READS(ne_Scalar, "ne.Scalar");
  REPRISE_READS(lt_Scalar, "lt.Scalar");
  REPRISE_READS(gt_Scalar, "gt.Scalar");
  REPRISE_READS(le_Tensor, "le.Tensor");
  REPRISE_READS(lt_Tensor, "lt.Tensor");
  REPRISE_READS(ge_Tensor, "ge.Tensor");
  REPRISE_READS(gt_Tensor, "gt.Tensor");
  REPRISE_READS(logical_not, "logical_not");
  REPRISE_READS(bitwise_and_Tensor, "bitwise_and.Tensor");
  REPRISE_READS(nll_loss_forward, "nll_loss_forward");
  REPRISE_READS(mse_loss, "mse_loss");
  REPRISE_READS(constant_pad_nd, "constant_pad_nd");
  REPRISE_READS(max_pool2d_with_indices, "max_pool2d_with_indices");
  REPRISE_READS(_scaled_dot_product_flash_attention_for_cpu,
                "_scaled_dot_product_flash_attention_for_cpu");
}
