// Gradients of hidden states and of a head, summed over chunks.
//
// The head's are summed in float32: rounding every chunk's share to bfloat16 before it is added
// biases training, though each step's error looks small.
#pragma once

#include "loss/head_chunks.h"

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

/// Asked outside of a Function, inside of whose forward grad mode is off.
HeadNeeds needs_of(const at::Tensor& hidden, const LinearHead& head);

/// Of a Function whose first arguments are hidden, weight and, if there is one, the bias.
HeadNeeds needs_of(const torch::autograd::AutogradContext& context, bool has_bias);

class HeadGradients {
 public:
  HeadGradients(const HeadPlan& plan,
                const HeadNeeds& needs,
                const at::Tensor& rows,
                const at::Tensor& weight);

  /// Takes the gradient (n, V) of the logits, before their division by the temperature, of the
  /// chunk of `rows` (of the products' type) that begins at `start`.
  void add(int64_t start, const at::Tensor& rows, const at::Tensor& slopes, ChunkLogits& logits);

  /// Undefined where not needed. `hidden` has the type of the rows, the others that of statistics.
  at::Tensor hidden, weight, bias;

 private:
  /// Only CUDA multiplies narrow types into a wide sum. Elsewhere the sum takes wide operands.
  bool sums_narrow() const { return plan_.product != plan_.statistics && is_cuda_; }

  HeadPlan plan_;
  bool is_cuda_;
};

/// A sum, which may be undefined, in the type of the parameter that it is for.
at::Tensor as_gradient(const at::Tensor& sum, at::ScalarType type);

/// For losses whose gradients are made in forward, because what comes from above is one factor:
/// keeps them in the autograd node.
void keep_gradients(torch::autograd::AutogradContext& context,
                    const HeadGradients& gradients,
                    const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias);

/// `factor` (a scalar tensor) times what was kept: of hidden, weight and bias, and then undefined
/// ones up to the Function's `arguments`. Never a second copy in the type of the sums, except in a
/// backward that retains the graph.
torch::autograd::variable_list kept_gradients(torch::autograd::AutogradContext& context,
                                              const at::Tensor& factor,
                                              size_t arguments);

}  // namespace reprise
