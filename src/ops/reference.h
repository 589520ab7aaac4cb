// Reference implementations of our operators with ATen: they serve every device and type that our
// kernels do not, and kernels are tested against them. Schemas are beside the definitions.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace reprise::ops::reference {

REPRISE_API std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        double epsilon,
                                                        double offset = 0);

REPRISE_API std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& residual_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    bool needs_weight,
    double offset = 0);

REPRISE_API at::Tensor gated(const at::Tensor& gate_up, int64_t activation);
REPRISE_API at::Tensor gated_backward(const at::Tensor& gradient,
                                      const at::Tensor& gate_up,
                                      int64_t activation);

/// In place: gate_up becomes its gradient, and `gradient` becomes gated(gate_up).
REPRISE_API void gated_backward_(at::Tensor& gradient, at::Tensor& gate_up, int64_t activation);

REPRISE_API at::Tensor gated_linear(const at::Tensor& gate_up,
                                    int64_t activation,
                                    const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias,
                                    const std::optional<at::Tensor>& residual,
                                    at::TensorList a,
                                    at::TensorList b,
                                    at::IntArrayRef starts,
                                    at::ArrayRef<double> scales,
                                    double dropout,
                                    const std::optional<at::Tensor>& seed);

REPRISE_API at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added);
REPRISE_API void add_rounded_into_(at::Tensor& out, const at::Tensor& x, const at::Tensor& added);

REPRISE_API at::Tensor lora_norms(const at::Tensor& weight,
                                  const at::Tensor& a,
                                  const at::Tensor& b,
                                  double scale);

REPRISE_API void scale_into_(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor);

REPRISE_API void product_(at::Tensor& out,
                          const at::Tensor& a,
                          const at::Tensor& b,
                          bool transpose_a,
                          bool transpose_b,
                          bool adds);

REPRISE_API at::Tensor linear(const at::Tensor& x,
                              const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias);

REPRISE_API at::Tensor linear_add(const at::Tensor& x,
                                  const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias,
                                  const at::Tensor& residual);

REPRISE_API std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(
    const at::Tensor& x,
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
    const std::optional<at::Tensor>& seed);

/// The gradient of the product: (B, T, (heads + 2 kv_heads) head_dim).
REPRISE_API at::Tensor qkv_rope_backward(const at::Tensor& query,
                                         const at::Tensor& key,
                                         const at::Tensor& value,
                                         const at::Tensor& cos,
                                         const at::Tensor& sin,
                                         int64_t rotary_dims,
                                         bool interleaved);

REPRISE_API at::Tensor rope(const at::Tensor& x,
                            const at::Tensor& cos,
                            const at::Tensor& sin,
                            int64_t rotary_dims,
                            bool interleaved,
                            bool back);

REPRISE_API at::Tensor adapted_linear(const at::Tensor& x,
                                      const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias,
                                      const std::optional<at::Tensor>& residual,
                                      at::TensorList a,
                                      at::TensorList b,
                                      at::IntArrayRef starts,
                                      at::ArrayRef<double> scales,
                                      double dropout,
                                      const std::optional<at::Tensor>& seed);

REPRISE_API at::Tensor adapted_sum(const at::Tensor& product,
                                   const at::Tensor& x,
                                   at::TensorList a,
                                   at::TensorList b,
                                   at::IntArrayRef starts,
                                   at::ArrayRef<double> scales,
                                   double dropout,
                                   const std::optional<at::Tensor>& seed);

/// out = x, or out += x if `adds`, where the seed keeps a value; see ops/drop.h.
REPRISE_API void drop_into_(at::Tensor& out,
                            const at::Tensor& x,
                            const at::Tensor& seed,
                            double p,
                            int64_t first,
                            bool adds);

/// Losses, entropies and hits of each row. Overwrites the logits with their gradient.
REPRISE_API std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_(at::Tensor& logits,
                                                                          const at::Tensor& targets,
                                                                          bool weighted);

/// Log-probabilities, log sums, entropies (empty unless asked for) and hits of each row.
REPRISE_API std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> token_sums(
    const at::Tensor& logits, const at::Tensor& targets, double scale, bool has_entropy);

REPRISE_API void token_slopes_(at::Tensor& logits,
                               const at::Tensor& targets,
                               const at::Tensor& log_sums,
                               const std::optional<at::Tensor>& entropies,
                               const std::optional<at::Tensor>& grad_logprobs,
                               const std::optional<at::Tensor>& grad_entropies,
                               double scale);

}  // namespace reprise::ops::reference
