// The decoder block that all families share: attention and MLP, with norms before them, after them
// or both, added to the residual stream one after the other or in parallel. One block is one
// checkpointed region.
#pragma once

#include "model/layers/attention.h"
#include "model/layers/mlp.h"

#include <torch/nn/module.h>

#include <memory>
#include <string>

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
  // What surrounds a branch: norms of what it reads, of what it adds, and of the sum (null: none),
  // and the dropout of what it adds.
  struct Around {
    std::shared_ptr<Norm> before, after, of_sum;
    double dropout = 0;

    bool drops(const Pass& pass) const { return dropout > 0 && pass.training; }
    at::Tensor dropped(const at::Tensor& added, const Pass& pass) const;
  };

  Around make_around(const ModelConfig& config,
                     const std::string& before,
                     const std::string& after,
                     double dropout,
                     const at::TensorOptions& options);
  template <class Branch>
  at::Tensor add_branch(const Around& around,
                        const at::Tensor& x,
                        const Pass& pass,
                        const Branch& branch) const;
  template <class Branch>
  at::Tensor sum_of(const Around& around,
                    const ops::Fork& fork,
                    const Pass& pass,
                    const Branch& branch) const;
  at::Tensor forward_parallel(const at::Tensor& x,
                              const AttentionContext& context,
                              const Pass& pass,
                              KvCache* cache) const;
  void move_weights(const Move& move) const;

  bool is_parallel_, drops_sum_, residual_is_normed_;
  double residual_scale_;
  Around around_attention_, around_mlp_;
  Attention attention_;
  Mlp mlp_;
};

}  // namespace reprise
