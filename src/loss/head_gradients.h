// Gradients of hidden states and of a head, summed over chunks.
//
// The head's are summed in float32: rounding every chunk's share to bfloat16 before it is added
// biases training, though each step's error looks small.
#pragma once

#include "loss/head_chunks.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

struct HeadNeeds {
  bool hidden = false, weight = false, bias = false;
};

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
  HeadPlan plan_;
};

/// `sum` or a factor (a scalar tensor) times it, in the type of the parameter that it is for,
/// without another copy in its own type.
at::Tensor as_gradient(const at::Tensor& sum, at::ScalarType type, const at::Tensor& factor = {});

}  // namespace reprise
