// Our operators on the meta device: what they allocate on the device that is planned for.
//
// For a GPU that is what our kernels allocate: each function takes the tensors of the function of
// its name in ops/cuda/, without the launch (Note [One list of allocations]). For other devices,
// and for types without a kernel, it is what the references allocate.
#include "ops/kernel_allocations.h"
#include "ops/linear/adapter_products.h"
#include "ops/reference.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

namespace reprise::ops {

namespace {

bool is_for_gpu(const at::Tensor& tensor) {
  return memory::is_for_cuda(tensor.device());
}

at::Tensor planned_linear(const at::Tensor& x,
                          const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& residual) {
  const auto tensors = linear_tensors(x, weight, bias, residual);
  const auto workspace = matmul_workspace(tensors.out);
  return tensors.out;
}

void product_(at::Tensor& out,
              const at::Tensor& a,
              const at::Tensor& b,
              bool transpose_a,
              bool transpose_b,
              bool adds) {
  if (!is_for_gpu(a) || !serves_matmul(out, a, b)) {
    reference::product_(out, a, b, transpose_a, transpose_b, adds);
    return;
  }
  const auto left = matmul_operand(a, transpose_a), right = matmul_operand(b, transpose_b);
  const auto workspace = matmul_workspace(out);
}

at::Tensor linear(const at::Tensor& x,
                  const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  return is_for_gpu(x) && serves_linear(x, weight, bias)
             ? planned_linear(x, weight, bias, std::nullopt)
             : reference::linear(x, weight, bias);
}

at::Tensor linear_add(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const at::Tensor& residual) {
  return is_for_gpu(x) && serves_linear(x, weight, bias) && have_one_type(residual, x)
             ? planned_linear(x, weight, bias, residual)
             : reference::linear_add(x, weight, bias, residual);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        const std::optional<at::Tensor>& bias,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin,
                                                        int64_t heads,
                                                        int64_t kv_heads,
                                                        int64_t rotary_dims,
                                                        bool interleaved,
                                                        at::TensorList a,
                                                        at::TensorList b,
                                                        at::IntArrayRef starts,
                                                        at::ArrayRef<double> scales,
                                                        double dropout,
                                                        const std::optional<at::Tensor>& seed) {
  if (!is_for_gpu(x) || !serves_linear(x, weight, bias)) {
    return reference::qkv_rope(x,
                               weight,
                               bias,
                               cos,
                               sin,
                               heads,
                               kv_heads,
                               rotary_dims,
                               interleaved,
                               a,
                               b,
                               starts,
                               scales,
                               dropout,
                               seed);
  }
  auto product = planned_linear(x, weight, bias, std::nullopt);
  if (!a.empty()) {
    add_adapters(product, x, adapters_of(a, b, starts, scales, dropout, seed));
  }
  const auto [query, key, value] = split_heads(product, heads, kv_heads);
  return {query, key, value};
}

at::Tensor qkv_rope_backward(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             int64_t rotary_dims,
                             bool interleaved) {
  if (!is_for_gpu(query) || !serves_qkv_rope_backward(query, key, value)) {
    return reference::qkv_rope_backward(query, key, value, cos, sin, rotary_dims, interleaved);
  }
  return qkv_rope_backward_tensors(query, key, value).product;
}

at::Tensor rope(const at::Tensor& x,
                const at::Tensor& cos,
                const at::Tensor& sin,
                int64_t rotary_dims,
                bool interleaved,
                bool back) {
  if (!is_for_gpu(x) || !are_kernel_types(x)) {
    return reference::rope(x, cos, sin, rotary_dims, interleaved, back);
  }
  return rope_tensors(x, back).out.transpose(1, 2);
}

at::Tensor gated(const at::Tensor& gate_up, int64_t activation) {
  return is_for_gpu(gate_up) && are_kernel_types(gate_up) ? gated_tensors(gate_up).out
                                                          : reference::gated(gate_up, activation);
}

at::Tensor gated_backward(const at::Tensor& gradient,
                          const at::Tensor& gate_up,
                          int64_t activation) {
  return is_for_gpu(gate_up) && serves_gated_backward(gradient, gate_up)
             ? gated_backward_tensors(gradient, gate_up).out
             : reference::gated_backward(gradient, gate_up, activation);
}

void gated_backward_(at::Tensor& gradient, at::Tensor& gate_up, int64_t activation) {
  if (!is_for_gpu(gate_up) || !serves_gated_backward_in_place(gradient, gate_up)) {
    reference::gated_backward_(gradient, gate_up, activation);
  }
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x,
                                            const at::Tensor& weight,
                                            double epsilon,
                                            double offset) {
  if (!is_for_gpu(x) || !are_kernel_types(x, weight)) {
    return reference::rms_norm(x, weight, epsilon, offset);
  }
  const auto tensors = rms_norm_tensors(x);
  return {tensors.out, tensors.scale};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& residual_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    bool needs_weight,
    double offset) {
  if (!is_for_gpu(x) || !serves_rms_norm_backward(gradient, residual_gradient, x, weight)) {
    return reference::rms_norm_backward(
        gradient, residual_gradient, x, weight, scale, needs_weight, offset);
  }
  const auto tensors = rms_norm_backward_tensors(
      gradient, residual_gradient, x, weight, needs_weight, kPlannedNormPartialRows);
  return {tensors.for_x, tensors.for_weight};
}

at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added) {
  if (!is_for_gpu(x) || !are_kernel_types(x, added)) {
    return reference::add_rounded(x, added);
  }
  const auto values = x.contiguous(), others = added.contiguous();
  return at::empty_like(values);
}

void add_rounded_into_(at::Tensor& out, const at::Tensor& x, const at::Tensor& added) {
  if (!is_for_gpu(x) || !serves_add_rounded_into(out, x, added)) {
    reference::add_rounded_into_(out, x, added);
  }
}

// The CPU's kernel allocates nothing either.
void drop_into_(at::Tensor& out,
                const at::Tensor& x,
                const at::Tensor& seed,
                double p,
                int64_t first,
                bool adds) {
  if (is_for_gpu(x) && !are_kernel_types(out, x)) {
    reference::drop_into_(out, x, seed, p, first, adds);
  }
}

void scale_into_(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor) {
  if (!is_for_gpu(out) || !serves_scale_into(out, values, factor)) {
    reference::scale_into_(out, values, factor);
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_(at::Tensor& logits,
                                                              const at::Tensor& targets,
                                                              bool weighted) {
  if (!is_for_gpu(logits) || !serves_logits(logits)) {
    return reference::cross_entropy_(logits, targets, weighted);
  }
  const auto [losses, entropies, hits] = cross_entropy_tensors(logits);
  return {losses, entropies, hits};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> token_sums(const at::Tensor& logits,
                                                                      const at::Tensor& targets,
                                                                      double scale,
                                                                      bool has_entropy) {
  if (!is_for_gpu(logits) || !serves_logits(logits)) {
    return reference::token_sums(logits, targets, scale, has_entropy);
  }
  const auto [logprobs, log_sums, entropies, hits] = token_sums_tensors(logits, has_entropy);
  return {logprobs, log_sums, entropies, hits};
}

void token_slopes_(at::Tensor& logits,
                   const at::Tensor& targets,
                   const at::Tensor& log_sums,
                   const std::optional<at::Tensor>& entropies,
                   const std::optional<at::Tensor>& grad_logprobs,
                   const std::optional<at::Tensor>& grad_entropies,
                   double scale) {
  if (!is_for_gpu(logits) || !serves_logits(logits)) {
    reference::token_slopes_(
        logits, targets, log_sums, entropies, grad_logprobs, grad_entropies, scale);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, Meta, library) {
  library.impl("product_", product_);
  library.impl("linear", linear);
  library.impl("linear_add", linear_add);
  library.impl("qkv_rope", qkv_rope);
  library.impl("qkv_rope_backward", qkv_rope_backward);
  library.impl("rope", rope);
  library.impl("gated", gated);
  library.impl("gated_backward", gated_backward);
  library.impl("gated_backward_", gated_backward_);
  library.impl("rms_norm", rms_norm);
  library.impl("rms_norm_backward", rms_norm_backward);
  library.impl("add_rounded", add_rounded);
  library.impl("add_rounded_into_", add_rounded_into_);
  library.impl("drop_into_", drop_into_);
  library.impl("scale_into_", scale_into_);
  library.impl("cross_entropy_", cross_entropy_);
  library.impl("token_sums", token_sums);
  library.impl("token_slopes_", token_slopes_);
}

}  // namespace reprise::ops
