// Gradients of the hidden states and of the head, accumulated over chunks.
//
// Those of the head are accumulated in float32: rounding the contribution of every chunk to
// bfloat16 would bias training, even though the error of a single step is small.
#pragma once

#include "loss/head/head_chunks.h"

#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>

namespace reprise {

struct HeadNeeds {
  bool hidden = false, weight = false, bias = false;

  bool any() const { return hidden || weight || bias; }
};

/// Call it outside of a Function: inside its forward, grad mode is off.
HeadNeeds needs_of(const at::Tensor& hidden, const LinearHead& head);

/// For a Function whose first arguments are hidden, weight and, if present, the bias.
HeadNeeds needs_of(const torch::autograd::AutogradContext& context, bool has_bias);

class HeadGradients {
 public:
  HeadGradients(const HeadPlan& plan,
                const HeadNeeds& needs,
                const at::Tensor& rows,
                const at::Tensor& weight);

  /// Adds a chunk: grad_logits (n, V) are the gradients of the logits before the division by the
  /// temperature, and become those of the products; `rows` (n, H), in the dtype of the products,
  /// begin at `start`.
  void add(int64_t start,
           const at::Tensor& rows,
           const at::Tensor& grad_logits,
           ChunkLogits& logits);

  /// Undefined where not needed. `hidden` has the dtype of the rows, the others that of statistics.
  at::Tensor hidden, weight, bias;

 private:
  /// Only CUDA accumulates products of narrow operands in float32. Elsewhere operands are widened.
  bool sums_narrow() const { return plan_.product != plan_.statistics && is_cuda_; }

  HeadPlan plan_;
  bool is_cuda_;
};

/// Converts a sum, which may be undefined, to the dtype of its parameter.
at::Tensor as_gradient(const at::Tensor& sum, at::ScalarType type);

/// Saves gradients computed in forward in the autograd node. For losses whose upstream gradient is
/// one factor.
void keep_gradients(torch::autograd::AutogradContext& context,
                    const HeadGradients& gradients,
                    const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias);

/// The saved gradients of hidden, weight and bias times `factor` (a scalar tensor), padded with
/// undefined tensors to the number of the Function's `arguments`. Makes no second copy in the dtype
/// of the sums, except in a backward that retains the graph.
torch::autograd::variable_list kept_gradients(torch::autograd::AutogradContext& context,
                                              const at::Tensor& factor,
                                              size_t arguments);

}  // namespace reprise
