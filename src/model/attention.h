// Self-attention of one block: projections, optional q/k norms, rotary embedding, and LibTorch's
// scaled_dot_product_attention, or its flash attention by the bounds of documents.
#pragma once

#include "model/architecture.h"
#include "model/attention_mask.h"
#include "model/joined_linears.h"
#include "model/linear.h"
#include "model/norm.h"
#include "model/pass.h"

#include <reprise/model/config.h>
#include <reprise/model/kv_cache.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>

namespace reprise {

/// What all blocks of a pass share, as arguments of their regions.
struct AttentionContext {
  at::Tensor cos, sin;  ///< rotary tables; undefined without
  AttentionMask mask;

  template <class Visit>
  void for_each_tensor(Visit&& visit) {
    visit(cos);
    visit(sin);
    visit(mask.allowed);
    visit(mask.documents.starts);
  }
};

class Attention {
 public:
  /// Registers its modules in `block`, under the architecture's names.
  Attention(torch::nn::Module& block,
            const ModelConfig& config,
            const Architecture& architecture,
            int64_t layer,
            const at::TensorOptions& options);

  /// x (B, T, hidden) -> (B, T, hidden). With a cache, keys and values go through it.
  at::Tensor forward(const at::Tensor& x,
                     const AttentionContext& context,
                     const Pass& pass,
                     KvCache* cache) const;
  /// stream + forward(x).
  at::Tensor forward_onto(const at::Tensor& stream,
                          const at::Tensor& x,
                          const AttentionContext& context,
                          const Pass& pass,
                          KvCache* cache) const;
  /// Before its modules are moved: weights that share an input are moved as one.
  void move_weights(const Move& move) const { move_together(projections(), move); }

 private:
  Linears projections() const;
  std::array<at::Tensor, 3> project(const at::Tensor& x, const Pass& pass) const;
  std::array<at::Tensor, 3> heads_of(const at::Tensor& x,
                                     const AttentionContext& context,
                                     const Pass& pass) const;
  at::Tensor attend(const at::Tensor& x,
                    const AttentionContext& context,
                    const Pass& pass,
                    KvCache* cache) const;

  int64_t layer_, heads_, kv_heads_, head_dim_;
  double scale_, dropout_;
  RopeConfig rope_;
  QkvLayout layout_;
  std::shared_ptr<Linear> query_, key_, value_;  // fused layouts: query_ is all three
  std::shared_ptr<Linear> output_;
  std::shared_ptr<Norm> query_norm_, key_norm_;  // null: none
};

}  // namespace reprise
