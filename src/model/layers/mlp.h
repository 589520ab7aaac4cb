// The MLP of one block, gated or plain.
#pragma once

#include "model/families/architecture.h"
#include "model/layers/joined_linears.h"
#include "model/layers/linear.h"
#include "model/layers/pass.h"

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

  /// x (B, T, hidden) -> (B, T, hidden), plus the residual if it is defined.
  at::Tensor forward(const at::Tensor& x, const Pass& pass, const at::Tensor& residual = {}) const;
  /// Moves weights that share an input as one. Call it before the modules themselves are moved.
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
