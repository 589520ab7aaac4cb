// Self-attention of one block: projections, optional q/k norms, rotary embedding, and
// scaled_dot_product_attention, or flash attention within documents, or where scores are more than
// scaled products ops::sliced_attention.
#pragma once

#include "model/families/architecture.h"
#include "model/layers/attention_context.h"
#include "model/layers/joined_linears.h"
#include "model/layers/linear.h"
#include "model/layers/norm.h"
#include "model/layers/pass.h"

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>

namespace reprise {

class Attention {
 public:
  /// Registers its modules in `block`, under the architecture's names.
  Attention(torch::nn::Module& block,
            const ModelConfig& config,
            const Architecture& architecture,
            int64_t layer,
            const at::TensorOptions& options);

  /// x (B, T, hidden) -> (B, T, hidden), plus the residual if it is defined. With a cache, new keys
  /// and values are appended to it.
  at::Tensor forward(const at::Tensor& x,
                     const AttentionContext& context,
                     const Pass& pass,
                     KvCache* cache,
                     const at::Tensor& residual = {}) const;
  /// Moves weights that share an input as one. Call it before the modules themselves are moved.
  void move_weights(const Move& move) const { move_together(projections(), move); }

 private:
  Linears projections() const;
  std::array<at::Tensor, 3> project(const at::Tensor& x, const Pass& pass) const;
  at::Tensor normed(const at::Tensor& heads,
                    const std::shared_ptr<Norm>& norm,
                    const std::shared_ptr<HeadNorms>& norms) const;
  std::array<at::Tensor, 3> heads_of(const at::Tensor& x,
                                     const AttentionContext& context,
                                     const Pass& pass) const;
  at::Tensor attend(const at::Tensor& x,
                    const AttentionContext& context,
                    const Pass& pass,
                    KvCache* cache) const;

  at::Tensor attend_in_slices(const std::array<at::Tensor, 3>& heads,
                              const AttentionContext& context,
                              const Pass& pass) const;

  int64_t layer_, heads_, kv_heads_, head_dim_;
  double scale_, dropout_, softcap_;
  bool has_shaped_scores_;
  RopeConfig rope_;
  QkvLayout layout_;
  std::shared_ptr<Linear> query_, key_, value_;  // fused layouts: query_ is all three
  std::shared_ptr<Linear> output_;
  QkNorm qk_norm_;
  std::shared_ptr<Norm> query_norm_, key_norm_;         // null: none
  std::shared_ptr<HeadNorms> query_norms_, key_norms_;  // of QkNorm::EachHead
};

}  // namespace reprise
