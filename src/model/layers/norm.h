// RMSNorm and LayerNorm, computed in float32.
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
  /// x and its norm, for a residual connection: see ops::fork_rms_norm.
  ops::Fork fork(const at::Tensor& x) const;

  at::Tensor weight;
  at::Tensor bias;  ///< layer norm only

 private:
  NormKind kind_;
  double epsilon_;
};

}  // namespace reprise
