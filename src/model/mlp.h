// The feed-forward part of one block, gated or plain.
#pragma once

#include "model/architecture.h"
#include "model/joined_linears.h"
#include "model/linear.h"
#include "model/pass.h"

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace reprise {

class Mlp {
 public:
  Mlp(torch::nn::Module& block,
      const ModelConfig& config,
      const Architecture& architecture,
      const at::TensorOptions& options);

  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;
  at::Tensor forward_onto(const at::Tensor& stream, const at::Tensor& x, const Pass& pass) const;
  /// Before its modules are moved: weights that share an input are moved as one.
  void move_weights(const Move& move) const { move_together(gates(), move); }

 private:
  Linears gates() const;
  at::Tensor gate_and_up(const at::Tensor& x, const Pass& pass) const;
  at::Tensor inner(const at::Tensor& x, const Pass& pass) const;

  MlpLayout layout_;
  Activation activation_;
  std::shared_ptr<Linear> gate_;  // null unless MlpLayout::Gated
  std::shared_ptr<Linear> up_, down_;
};

}  // namespace reprise
