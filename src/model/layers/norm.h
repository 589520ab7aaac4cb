// RMSNorm and LayerNorm, computed in float32.
#pragma once

#include "ops/rms_norm.h"

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise {

class Norm : public torch::nn::Module {
 public:
  /// A norm of rows of `size` values, of the kind that the model has.
  Norm(const ModelConfig& config, int64_t size, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  /// x and its norm, for a residual connection: see ops::fork_rms_norm.
  ops::Fork fork(const at::Tensor& x) const;
  /// The value that new weights have.
  double initial_weight() const { return adds_one_ ? 0 : 1; }

  at::Tensor weight;  ///< this and the next undefined: none
  at::Tensor bias;

 private:
  at::Tensor layer_norm(const at::Tensor& x) const;
  ops::NormWeight rms_weight() const { return {weight, adds_one_ ? 1.0 : 0.0}; }

  NormKind kind_;
  int64_t size_;
  double epsilon_;
  bool adds_one_;
};

/// A norm for each head, under the names 0, 1, …, with weights and no biases.
class HeadNorms : public torch::nn::Module {
 public:
  HeadNorms(ModelConfig config, int64_t heads, int64_t size, const at::TensorOptions& options);
  /// x (…, heads, size).
  at::Tensor forward(const at::Tensor& x) const;

 private:
  std::vector<std::shared_ptr<Norm>> norms_;
};

}  // namespace reprise
