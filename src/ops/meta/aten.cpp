// Meta kernels of ATen operators in a training step for which LibTorch has Python functions only.
// They return what the real kernels return; where its size depends on values (which rows are
// masked), the largest possible size.
#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TypeProperties.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>

namespace reprise::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor index_select(const at::Tensor& x, int64_t dimension, const at::Tensor& index) {
  auto sizes = x.sizes().vec();
  sizes[static_cast<size_t>(at::maybe_wrap_dim(dimension, x.dim()))] = index.numel();
  return at::empty(sizes, x.options());
}

at::Tensor embedding_dense_backward(const at::Tensor& gradient,
                                    const at::Tensor& ids,
                                    c10::SymInt rows,
                                    c10::SymInt /*padding*/,
                                    bool /*scales_by_frequency*/) {
  // On a GPU the ids are sorted first, together with their positions.
  const int64_t sorted = memory::is_for_cuda(ids.device()) ? 4 * ids.numel() : 0;
  const auto workspace = at::empty({sorted}, ids.options());
  return at::zeros({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

Three native_layer_norm(const at::Tensor& x,
                        c10::SymIntArrayRef shape,
                        const OptionalTensor& weight,
                        const OptionalTensor& /*bias*/,
                        double /*epsilon*/) {
  auto sizes = x.sizes().vec();
  for (size_t i = sizes.size() - shape.size(); i < sizes.size(); ++i) {
    sizes[i] = 1;
  }
  const bool is_mixed = weight && weight->scalar_type() != x.scalar_type();
  const auto type = memory::is_for_cuda(x.device()) || is_mixed
                        ? c10::promoteTypes(x.scalar_type(), at::kFloat)
                        : x.scalar_type();
  const auto rows = x.contiguous();
  return {at::empty_like(rows),
          at::empty(sizes, x.options().dtype(type)),
          at::empty(sizes, x.options().dtype(type))};
}

Three native_layer_norm_backward(const at::Tensor& gradient,
                                 const at::Tensor& x,
                                 c10::SymIntArrayRef /*shape*/,
                                 const at::Tensor& /*mean*/,
                                 const at::Tensor& /*scale*/,
                                 const OptionalTensor& weight,
                                 const OptionalTensor& bias,
                                 std::array<bool, 3> needs) {
  const auto of_y = gradient.contiguous(), rows = x.contiguous();
  return {needs[0] ? at::empty_like(rows) : at::Tensor(),
          needs[1] && weight ? at::empty_like(*weight) : at::Tensor(),
          needs[2] && bias ? at::empty_like(*bias) : at::Tensor()};
}

at::Tensor relu(const at::Tensor& x) {
  return at::empty_like(x);
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& x, const at::Tensor& y) {
  const auto sizes = at::infer_size(at::infer_size(condition.sizes(), x.sizes()), y.sizes());
  return at::empty(sizes, condition.options().dtype(at::native::result_type(x, y)));
}

at::Tensor& where_out(const at::Tensor& condition,
                      const at::Tensor& x,
                      const at::Tensor& y,
                      at::Tensor& out) {
  out.resize_(at::infer_size(at::infer_size(condition.sizes(), x.sizes()), y.sizes()));
  return out;
}

at::Tensor& logical_out(const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  out.resize_(at::infer_size(x.sizes(), y.sizes()));
  return out;
}

at::Tensor& logical_not_out(const at::Tensor& x, at::Tensor& out) {
  out.resize_(x.sizes());
  return out;
}

std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& x) {
  const int64_t kept = memory::is_for_cuda(x.device()) ? 0 : x.numel();
  return {at::empty_like(x), at::empty({kept}, x.options())};
}

at::Tensor log_sigmoid_backward(const at::Tensor& gradient,
                                const at::Tensor& /*x*/,
                                const at::Tensor& /*buffer*/) {
  return at::empty_like(gradient);
}

at::Tensor masked_select(const at::Tensor& x, const at::Tensor& mask) {
  return at::empty({c10::multiply_integers(at::infer_size(x.sizes(), mask.sizes()))}, x.options());
}

at::Tensor nonzero_static(const at::Tensor& x, c10::SymInt size, int64_t /*fill*/) {
  return at::empty({size.expect_int(), x.dim()}, x.options().dtype(at::kLong));
}

void assert_async(const at::Tensor& /*condition*/, std::string_view /*message*/) {}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("index_select", index_select);
  library.impl("embedding_dense_backward", embedding_dense_backward);
  library.impl("native_layer_norm", native_layer_norm);
  library.impl("native_layer_norm_backward", native_layer_norm_backward);
  library.impl("relu", relu);
  library.impl("where.self", where);
  library.impl("where.self_out", where_out);
  library.impl("logical_and.out", logical_out);
  library.impl("logical_or.out", logical_out);
  library.impl("logical_xor.out", logical_out);
  library.impl("logical_not.out", logical_not_out);
  library.impl("log_sigmoid_forward", log_sigmoid_forward);
  library.impl("log_sigmoid_backward", log_sigmoid_backward);
  library.impl("masked_select", masked_select);
  library.impl("nonzero_static", nonzero_static);
  library.impl("_assert_async.msg", assert_async);
}

}  // namespace reprise::ops
