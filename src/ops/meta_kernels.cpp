// Our operators on tensors without memory: what they allocate on the device that is planned for.
//
// For a GPU that is what our kernels (cuda/) allocate, call for call: each function here is the
// twin of the one of its name there, without the launch. For other devices, and types that kernels
// do not have, it is what the references allocate.
#include "ops/reference.h"

#include <reprise/detail/planned_device.h>

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

namespace reprise::ops {

namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // of a product by cublasLt
constexpr int64_t kNormPartials = 512;  // rows of partial sums; some GPUs take a few more or less

bool has_type(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == at::kBFloat16 || type == at::kHalf || type == at::kFloat;
}

template <class... Tensors>
bool has_kernel(const at::Tensor& first, const Tensors&... others) {
  return detail::is_for_cuda(first.device()) && has_type(first) && (has_type(others) && ...);
}

at::Tensor row_values(const at::Tensor& rows, int64_t count) {
  return at::empty({count}, rows.options().dtype(at::kFloat));
}

bool projects(const at::Tensor& x,
              const at::Tensor& weight,
              const std::optional<at::Tensor>& bias) {
  return has_kernel(x, weight) && (!bias || has_type(*bias)) && x.numel() > 0;
}

at::Tensor project(const at::Tensor& x,
                   const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias,
                   const std::optional<at::Tensor>& stream) {
  const auto type = x.scalar_type();
  const auto rows = x.contiguous(), w = weight.to(type).contiguous();
  const auto b = bias ? bias->to(type).contiguous() : at::Tensor();
  const auto added = stream ? stream->contiguous() : at::Tensor();
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  auto result = at::empty(sizes, x.options().requires_grad(false));
  const auto workspace = at::empty({kWorkspaceBytes}, x.options().dtype(at::kByte));
  return result;
}

void product_(at::Tensor& out,
              const at::Tensor& a,
              const at::Tensor& b,
              bool transpose_a,
              bool transpose_b,
              bool adds) {
  if (!has_kernel(a) || a.numel() == 0 || b.numel() == 0) {
    reference::product_(out, a, b, transpose_a, transpose_b, adds);
    return;
  }
  const auto has_rows = [](const at::Tensor& matrix) {
    return (matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1)) ||
           (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0));
  };
  const auto left = has_rows(a) ? a : a.contiguous(), right = has_rows(b) ? b : b.contiguous();
  const auto workspace = at::empty({kWorkspaceBytes}, a.options().dtype(at::kByte));
}

at::Tensor linear(const at::Tensor& x,
                  const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  return projects(x, weight, bias) ? project(x, weight, bias, std::nullopt)
                                   : reference::linear(x, weight, bias);
}

at::Tensor linear_add(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const at::Tensor& stream) {
  const bool is_served = projects(x, weight, bias) && stream.scalar_type() == x.scalar_type();
  return is_served ? project(x, weight, bias, stream)
                   : reference::linear_add(x, weight, bias, stream);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        const std::optional<at::Tensor>& bias,
                                                        const std::optional<at::Tensor>& added,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin,
                                                        int64_t heads,
                                                        int64_t kv_heads,
                                                        int64_t turned,
                                                        bool interleaved) {
  if (!projects(x, weight, bias)) {
    return reference::qkv_rope(
        x, weight, bias, added, cos, sin, heads, kv_heads, turned, interleaved);
  }
  const auto parts = project(x, weight, bias, std::nullopt)
                         .unflatten(-1, {heads + 2 * kv_heads, -1})
                         .transpose(1, 2)
                         .split_with_sizes({heads, kv_heads, kv_heads}, 1);
  return {parts[0], parts[1], parts[2]};
}

at::Tensor with_adjacent_values(const at::Tensor& gradient) {
  return gradient.stride(-1) == 1 ? gradient : gradient.contiguous();
}

at::Tensor qkv_rope_backward(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             int64_t turned,
                             bool interleaved) {
  if (!has_kernel(query)) {
    return reference::qkv_rope_backward(query, key, value, cos, sin, turned, interleaved);
  }
  const auto q = with_adjacent_values(query), k = with_adjacent_values(key),
             v = with_adjacent_values(value);
  return at::empty({q.size(0), q.size(2), (q.size(1) + k.size(1) + v.size(1)) * q.size(3)},
                   query.options());
}

at::Tensor rope(const at::Tensor& x,
                const at::Tensor& cos,
                const at::Tensor& sin,
                int64_t turned,
                bool interleaved,
                bool back) {
  if (!has_kernel(x)) {
    return reference::rope(x, cos, sin, turned, interleaved, back);
  }
  const auto result = at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
  const auto read = back ? with_adjacent_values(x) : x.transpose(1, 2).contiguous();
  return result.transpose(1, 2);
}

at::Tensor gated(const at::Tensor& gate_up, int64_t activation) {
  if (!has_kernel(gate_up)) {
    return reference::gated(gate_up, activation);
  }
  const auto both = gate_up.contiguous();
  auto sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  return at::empty(sizes, gate_up.options());
}

at::Tensor gated_backward(const at::Tensor& gradient,
                          const at::Tensor& gate_up,
                          int64_t activation) {
  if (!has_kernel(gate_up) || gradient.scalar_type() != gate_up.scalar_type()) {
    return reference::gated_backward(gradient, gate_up, activation);
  }
  const auto both = gate_up.contiguous(), of_y = gradient.contiguous();
  return at::empty_like(both);
}

void gated_backward_(at::Tensor& gradient, at::Tensor& gate_up, int64_t activation) {
  const bool is_served = has_kernel(gate_up) && gradient.scalar_type() == gate_up.scalar_type() &&
                         gradient.is_contiguous() && gate_up.is_contiguous();
  if (!is_served) {
    reference::gated_backward_(gradient, gate_up, activation);
  }
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x,
                                            const at::Tensor& weight,
                                            double epsilon) {
  if (!has_kernel(x, weight)) {
    return reference::rms_norm(x, weight, epsilon);
  }
  const auto rows = x.contiguous();
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  return {at::empty_like(rows), at::empty(sizes, x.options().dtype(at::kFloat))};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& stream_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    bool needs_weight) {
  const bool is_one_type = gradient.scalar_type() == x.scalar_type() &&
                           (!stream_gradient || stream_gradient->scalar_type() == x.scalar_type());
  if (!has_kernel(x, weight) || !is_one_type || x.numel() == 0) {
    return reference::rms_norm_backward(gradient, stream_gradient, x, weight, scale, needs_weight);
  }
  const auto of_normed = gradient.contiguous(), input = x.contiguous();
  const auto of_stream = stream_gradient ? stream_gradient->contiguous() : at::Tensor();
  auto for_x = at::empty_like(input);
  if (!needs_weight) {
    return {for_x, at::Tensor()};
  }
  const auto partials = at::empty({kNormPartials, x.size(-1)}, x.options().dtype(at::kFloat));
  return {for_x, at::empty_like(weight)};
}

at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added) {
  if (!has_kernel(x, added)) {
    return reference::add_rounded(x, added);
  }
  const auto values = x.contiguous(), others = added.contiguous();
  return at::empty_like(values);
}

void add_rounded_into_(at::Tensor& out, const at::Tensor& x, const at::Tensor& added) {
  const bool is_served = has_kernel(x, added) && out.scalar_type() == x.scalar_type() &&
                         out.is_contiguous() && x.is_contiguous() && added.is_contiguous();
  if (!is_served) {
    reference::add_rounded_into_(out, x, added);
  }
}

void scale_into_(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor) {
  const bool is_served = has_kernel(out, values) && out.is_contiguous() && values.is_contiguous() &&
                         factor.scalar_type() == at::kFloat;
  if (!is_served) {
    reference::scale_into_(out, values, factor);
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_(at::Tensor& logits,
                                                              const at::Tensor& targets,
                                                              bool weighted) {
  if (!has_kernel(logits) || !logits.is_contiguous()) {
    return reference::cross_entropy_(logits, targets, weighted);
  }
  const int64_t rows = logits.size(0);
  return {row_values(logits, rows), row_values(logits, rows), row_values(logits, rows)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> token_sums(const at::Tensor& logits,
                                                                      const at::Tensor& targets,
                                                                      double scale,
                                                                      bool has_entropy) {
  if (!has_kernel(logits) || !logits.is_contiguous()) {
    return reference::token_sums(logits, targets, scale, has_entropy);
  }
  const int64_t rows = logits.size(0);
  return {row_values(logits, rows),
          row_values(logits, rows),
          row_values(logits, has_entropy ? rows : 0),
          row_values(logits, rows)};
}

void token_slopes_(at::Tensor& logits,
                   const at::Tensor& targets,
                   const at::Tensor& log_sums,
                   const std::optional<at::Tensor>& entropies,
                   const std::optional<at::Tensor>& grad_logprobs,
                   const std::optional<at::Tensor>& grad_entropies,
                   double scale) {
  if (!has_kernel(logits) || !logits.is_contiguous()) {
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
  library.impl("scale_into_", scale_into_);
  library.impl("cross_entropy_", cross_entropy_);
  library.impl("token_sums", token_sums);
  library.impl("token_slopes_", token_slopes_);
}

}  // namespace reprise::ops
