// Root-mean-square and layer norm, computed in float32 inside.
#pragma once

#include "ops/rms_norm.h"

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace reprise {

class Norm : public torch::nn::Module {
 public:
  Norm(NormKind kind, int64_t size, double epsilon, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  /// The same beside x: who goes on with the stream instead of x saves a pass over its gradient.
  ops::Fork fork(const at::Tensor& x) const;

  at::Tensor weight;
  at::Tensor bias;  ///< layer norm only

 private:
  NormKind kind_;
  double epsilon_;
};

}  // namespace reprise
