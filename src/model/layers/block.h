// The decoder block that all families share: attention and MLP with a norm before each, added to
// the residual stream one after the other or in parallel. One block is one checkpointed region.
#pragma once

#include "model/layers/attention.h"
#include "model/layers/mlp.h"

#include <torch/nn/module.h>

#include <memory>

namespace reprise {

class Block : public torch::nn::Module {
 public:
  Block(const ModelConfig& config,
        const Architecture& architecture,
        int64_t layer,
        const at::TensorOptions& options);

  at::Tensor forward(const at::Tensor& x,
                     const AttentionContext& context,
                     const Pass& pass,
                     KvCache* cache = nullptr) const;

  /// Weights that share an input stay adjacent in memory.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  /// Whether a parameter that takes part in a pass with these adapters requires a gradient.
  bool is_trained(AdapterUse adapters) const;

 private:
  void move_weights(const Move& move) const;

  bool is_parallel_;
  double dropout_;
  std::shared_ptr<Norm> attention_norm_, mlp_norm_;
  Attention attention_;
  Mlp mlp_;
};

}  // namespace reprise
