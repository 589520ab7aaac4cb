// When our GPU kernels serve an operator, and which tensors they read and allocate for it.
//
// Note [One list of allocations]
// A CUDA operator takes its tensors from here and launches the kernel; its stand-in on the meta
// device takes the same tensors and launches nothing. So the bytes that a plan predicts are the
// bytes that a step allocates, call for call. Tensors that have to be contiguous for a kernel are
// copied only if they are not.
#pragma once

#include "ops/kernel_facts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <array>
#include <cstdint>
#include <optional>

namespace reprise::ops {

/// Whether our kernels have all of these types; others go to the references.
template <class... Tensors>
bool are_kernel_types(const Tensors&... tensors) {
  const auto is_kernel_type = [](at::ScalarType type) {
    return type == at::kBFloat16 || type == at::kHalf || type == at::kFloat;
  };
  return (is_kernel_type(tensors.scalar_type()) && ...);
}

inline bool have_one_type(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type();
}

// Matrix products.

inline at::Tensor matmul_workspace(const at::Tensor& beside) {
  return at::empty({kMatmulWorkspaceBytes}, beside.options().dtype(at::kByte).requires_grad(false));
}

/// Whether rows do not overlap and the values of each are adjacent.
inline bool has_rows(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1);
}

/// A matrix that has_rows(), and whether the product takes its transpose.
struct MatmulOperand {
  at::Tensor matrix;
  bool is_transposed;
};

inline MatmulOperand matmul_operand(const at::Tensor& matrix, bool is_transposed) {
  if (has_rows(matrix)) {
    return {matrix, is_transposed};
  }
  const auto transpose = matrix.t();
  return has_rows(transpose) ? MatmulOperand{transpose, !is_transposed}
                             : MatmulOperand{matrix.contiguous(), is_transposed};
}

inline bool serves_matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return are_kernel_types(a) && have_one_type(a, b) && a.numel() > 0 && b.numel() > 0 &&
         has_rows(out) && (have_one_type(out, a) || out.scalar_type() == at::kFloat);
}

// Linear layers. Weight and bias may be of another type than x. A weight that is stored transposed
// would be copied: at::linear multiplies it as it is.

inline bool serves_linear(const at::Tensor& x,
                          const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
  return are_kernel_types(x, weight) && (!bias || are_kernel_types(*bias)) && x.numel() > 0 &&
         weight.is_contiguous();
}

struct LinearTensors {
  at::Tensor x, weight;
  at::Tensor bias, residual;  ///< undefined: none
  at::Tensor out;
};

inline LinearTensors linear_tensors(const at::Tensor& x,
                                    const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias,
                                    const std::optional<at::Tensor>& residual) {
  const auto type = x.scalar_type();
  LinearTensors tensors;
  tensors.x = x.contiguous();
  tensors.weight = weight.to(type).contiguous();
  tensors.bias = bias ? bias->to(type).contiguous() : at::Tensor();
  tensors.residual = residual ? residual->contiguous() : at::Tensor();
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  tensors.out = at::empty(sizes, x.options().requires_grad(false));
  return tensors;
}

// Heads of attention.

/// Queries, keys and values as views of their product (B, T, (heads + 2 kv_heads) head_dim):
/// (B, heads or kv_heads, T, head_dim) each.
inline std::array<at::Tensor, 3> split_heads(const at::Tensor& product,
                                             int64_t heads,
                                             int64_t kv_heads) {
  const int64_t all = heads + 2 * kv_heads;
  const auto parts = product.view({product.size(0), product.size(1), all, product.size(2) / all})
                         .transpose(1, 2)
                         .split_with_sizes({heads, kv_heads, kv_heads}, 1);
  return {parts[0], parts[1], parts[2]};
}

inline at::Tensor with_adjacent_values(const at::Tensor& heads) {
  return heads.stride(-1) == 1 ? heads : heads.contiguous();
}

inline bool serves_qkv_rope_backward(const at::Tensor& query,
                                     const at::Tensor& key,
                                     const at::Tensor& value) {
  return are_kernel_types(query) && have_one_type(query, key) && have_one_type(query, value);
}

struct QkvRopeBackwardTensors {
  at::Tensor query, key, value;
  at::Tensor product;  ///< gradient of the product
};

inline QkvRopeBackwardTensors qkv_rope_backward_tensors(const at::Tensor& query,
                                                        const at::Tensor& key,
                                                        const at::Tensor& value) {
  QkvRopeBackwardTensors tensors;
  tensors.query = with_adjacent_values(query);
  tensors.key = with_adjacent_values(key);
  tensors.value = with_adjacent_values(value);
  const int64_t heads = query.size(1) + key.size(1) + value.size(1);
  tensors.product =
      at::empty({query.size(0), query.size(2), heads * query.size(3)}, query.options());
  return tensors;
}

struct RopeTensors {
  at::Tensor out;  ///< (B, T, heads, head_dim): the heads of a token are adjacent, as in a product
  at::Tensor x;    ///< (B, T, heads, head_dim), or as given for the inverse rotation
};

/// x (B, heads, T, head_dim). `is_inverse`: x is a gradient, with strides as attention left them.
inline RopeTensors rope_tensors(const at::Tensor& x, bool is_inverse) {
  RopeTensors tensors;
  tensors.out = at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
  tensors.x = is_inverse ? with_adjacent_values(x) : x.transpose(1, 2).contiguous();
  return tensors;
}

// Gated activations.

struct GatedTensors {
  at::Tensor gate_up, out;
};

inline GatedTensors gated_tensors(const at::Tensor& gate_up) {
  auto sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  const auto both = gate_up.contiguous();
  return {both, at::empty(sizes, gate_up.options())};
}

inline bool serves_gated_backward(const at::Tensor& gradient, const at::Tensor& gate_up) {
  return are_kernel_types(gate_up) && have_one_type(gradient, gate_up);
}

inline bool serves_gated_backward_in_place(const at::Tensor& gradient, const at::Tensor& gate_up) {
  return serves_gated_backward(gradient, gate_up) && gradient.is_contiguous() &&
         gate_up.is_contiguous();
}

struct GatedBackwardTensors {
  at::Tensor gate_up, gradient;
  at::Tensor out;  ///< gradient of gate_up
};

inline GatedBackwardTensors gated_backward_tensors(const at::Tensor& gradient,
                                                   const at::Tensor& gate_up) {
  const auto both = gate_up.contiguous(), of_y = gradient.contiguous();
  return {both, of_y, at::empty_like(both)};
}

// RMSNorm.

struct RmsNormTensors {
  at::Tensor x, out;
  at::Tensor scale;  ///< float32, one number a row
};

inline RmsNormTensors rms_norm_tensors(const at::Tensor& x) {
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  const auto rows = x.contiguous();
  const auto out = at::empty_like(rows);
  return {rows, out, at::empty(sizes, x.options().dtype(at::kFloat))};
}

inline bool serves_rms_norm_backward(const at::Tensor& gradient,
                                     const std::optional<at::Tensor>& residual_gradient,
                                     const at::Tensor& x,
                                     const at::Tensor& weight) {
  return are_kernel_types(x, weight) && have_one_type(gradient, x) &&
         (!residual_gradient || have_one_type(*residual_gradient, x)) && x.numel() > 0;
}

struct RmsNormBackwardTensors {
  at::Tensor gradient, x, weight;
  at::Tensor residual_gradient;     ///< undefined: none
  at::Tensor for_x;                 ///< gradient of x
  at::Tensor for_weight, partials;  ///< undefined: the weight needs no gradient
};

/// `partial_rows`: rms_norm_partial_rows() of the device.
inline RmsNormBackwardTensors rms_norm_backward_tensors(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& residual_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    bool needs_weight,
    int64_t partial_rows) {
  RmsNormBackwardTensors tensors;
  tensors.gradient = gradient.contiguous();
  tensors.x = x.contiguous();
  tensors.weight = weight.contiguous();
  tensors.residual_gradient = residual_gradient ? residual_gradient->contiguous() : at::Tensor();
  tensors.for_x = at::empty_like(tensors.x);
  if (needs_weight) {
    tensors.for_weight = at::empty_like(tensors.weight);
    tensors.partials = at::empty({partial_rows, x.size(-1)}, x.options().dtype(at::kFloat));
  }
  return tensors;
}

// Elementwise passes, which also need pointers on 16 bytes.

inline bool serves_add_rounded_into(const at::Tensor& out,
                                    const at::Tensor& x,
                                    const at::Tensor& added) {
  return are_kernel_types(x, added) && have_one_type(out, x) && out.is_contiguous() &&
         x.is_contiguous() && added.is_contiguous();
}

inline bool serves_scale_into(const at::Tensor& out,
                              const at::Tensor& values,
                              const at::Tensor& factor) {
  return are_kernel_types(out, values) && out.is_contiguous() && values.is_contiguous() &&
         factor.scalar_type() == at::kFloat;
}

// Losses over logits (rows, vocabulary): see also has_cross_entropy_kernel().

inline bool serves_logits(const at::Tensor& logits) {
  return are_kernel_types(logits) && logits.is_contiguous();
}

/// One float32 number for each row of the logits each.
struct CrossEntropyTensors {
  at::Tensor losses, entropies, hits;
};

inline CrossEntropyTensors cross_entropy_tensors(const at::Tensor& logits) {
  const auto row_values = [&] {
    return at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  };
  return {row_values(), row_values(), row_values()};
}

struct TokenSumsTensors {
  at::Tensor logprobs, log_sums;
  at::Tensor entropies;  ///< empty unless asked for
  at::Tensor hits;
};

inline TokenSumsTensors token_sums_tensors(const at::Tensor& logits, bool has_entropy) {
  const auto row_values = [&](int64_t count) {
    return at::empty({count}, logits.options().dtype(at::kFloat));
  };
  const int64_t rows = logits.size(0);
  return {row_values(rows), row_values(rows), row_values(has_entropy ? rows : 0), row_values(rows)};
}

}  // namespace reprise::ops
