#include "model/layers/attention.h"

#include "memory/planned_device.h"
#include "model/generation/kv_cache.h"
#include "model/layers/fused_attention.h"
#include "model/layers/rope.h"
#include "model/module_tree.h"
#include "ops/linear/qkv_rope.h"
#include "ops/sliced_attention.h"

#include <reprise/model/attention_kernels.h>

#include <ATen/ATen.h>

namespace reprise {

namespace {

// Each key/value head once for every query head that shares it.
at::Tensor repeat_heads(const at::Tensor& x, int64_t times) {
  return x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

// With one group of queries, both fused layouts are the same.
QkvLayout layout_of(const ModelConfig& config, const Architecture& architecture) {
  const bool is_one_group =
      architecture.qkv_layout == QkvLayout::FusedPerGroup && config.kv_heads == 1;
  return is_one_group ? QkvLayout::FusedBlocks : architecture.qkv_layout;
}

}  // namespace

Attention::Attention(torch::nn::Module& block,
                     const ModelConfig& config,
                     const Architecture& architecture,
                     int64_t layer,
                     const at::TensorOptions& options)
    : layer_(layer),
      heads_(config.heads),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      scale_(config.attention_scales.at(static_cast<size_t>(layer))),
      dropout_(config.attention_dropout),
      softcap_(config.attention_softcap),
      has_shaped_scores_(has_shaped_scores(config)),
      rope_(config.rope_of(layer)),
      layout_(layout_of(config, architecture)),
      qk_norm_(config.qk_norm) {
  const auto linear = [&](const std::string& path, int64_t in, int64_t out, bool has_bias) {
    return adopt(block,
                 path,
                 std::make_shared<Linear>(
                     Linear::Shape{in, out, has_bias, architecture.weight_layout}, options));
  };
  const int64_t width = heads_ * head_dim_, kv_width = kv_heads_ * head_dim_;
  if (layout_ == QkvLayout::Separate) {
    const auto three = adjacent_linears(
        {width, kv_width, kv_width},
        {.in = config.hidden, .has_bias = config.qkv_bias, .layout = architecture.weight_layout},
        options);
    query_ = adopt(block, architecture.query, three[0]);
    key_ = adopt(block, architecture.key, three[1]);
    value_ = adopt(block, architecture.value, three[2]);
  } else {
    query_ = linear(architecture.qkv, config.hidden, width + 2 * kv_width, config.qkv_bias);
  }
  output_ =
      linear(architecture.attention_output, width, config.hidden, config.attention_output_bias);
  if (qk_norm_ == QkNorm::EachHead) {
    const auto norms = [&](const std::string& path, int64_t heads) {
      return adopt(block, path, std::make_shared<HeadNorms>(config, heads, head_dim_, options));
    };
    query_norms_ = norms(architecture.query_norm, heads_);
    key_norms_ = norms(architecture.key_norm, kv_heads_);
  } else if (qk_norm_ != QkNorm::None) {
    const auto norm = [&](const std::string& path, int64_t all_heads) {
      const int64_t size = qk_norm_ == QkNorm::Head ? head_dim_ : all_heads;
      return adopt(block, path, std::make_shared<Norm>(config, size, options));
    };
    query_norm_ = norm(architecture.query_norm, width);
    key_norm_ = norm(architecture.key_norm, kv_width);
  }
}

// The layers that make queries, keys and values.
Linears Attention::projections() const {
  return layout_ == QkvLayout::Separate ? Linears{query_.get(), key_.get(), value_.get()}
                                        : Linears{query_.get()};
}

// (B, T, heads, head_dim) each.
std::array<at::Tensor, 3> Attention::project(const at::Tensor& x, const Pass& pass) const {
  if (layout_ == QkvLayout::FusedPerGroup) {
    const int64_t queries = heads_ / kv_heads_;
    const auto groups =
        query_->forward(x, pass).unflatten(-1, {kv_heads_, (queries + 2) * head_dim_});
    const auto parts = groups.split_with_sizes({queries * head_dim_, head_dim_, head_dim_}, -1);
    const auto q =
        queries == 1 ? parts[0] : parts[0].unflatten(-1, {queries, head_dim_}).flatten(-3, -2);
    return {q, parts[1], parts[2]};
  }
  auto all = joined_forward(projections(), x, pass);
  if (!all.defined() && layout_ == QkvLayout::Separate) {
    const auto heads = [&](const Linear& linear) {
      return linear.forward(x, pass).unflatten(-1, {-1, head_dim_});
    };
    return {heads(*query_), heads(*key_), heads(*value_)};
  }
  if (!all.defined()) {
    all = query_->forward(x, pass);
  }
  const auto parts = all.unflatten(-1, {heads_ + 2 * kv_heads_, head_dim_})
                         .split_with_sizes({heads_, kv_heads_, kv_heads_}, 2);
  return {parts[0], parts[1], parts[2]};
}

// heads (B, T, heads, head_dim), by one norm or one for each head.
at::Tensor Attention::normed(const at::Tensor& heads,
                             const std::shared_ptr<Norm>& norm,
                             const std::shared_ptr<HeadNorms>& norms) const {
  if (qk_norm_ == QkNorm::EachHead) {
    return norms->forward(heads);
  }
  return qk_norm_ == QkNorm::Head ? norm->forward(heads)
                                  : norm->forward(heads.flatten(-2)).unflatten(-1, {-1, head_dim_});
}

// (B, heads or kv_heads, T, head_dim) each; queries and keys with rotary embedding.
std::array<at::Tensor, 3> Attention::heads_of(const at::Tensor& x,
                                              const AttentionContext& context,
                                              const Pass& pass) const {
  if (context.cos.defined() && qk_norm_ == QkNorm::None && layout_ != QkvLayout::FusedPerGroup) {
    if (const auto all = joined_values(projections(), x, pass)) {
      const auto heads =
          ops::qkv_rope(autocast_input(x),
                        all->weight,
                        all->bias,
                        joined_branches(projections(), x, pass),
                        context.cos,
                        context.sin,
                        {.heads = heads_,
                         .kv_heads = kv_heads_,
                         .head_dim = head_dim_,
                         .rotary_dims = rope_.dims,
                         .interleaved = rope_.pairing == RopeConfig::Pairing::Neighbours});
      return {heads.query, heads.key, heads.value};
    }
  }
  auto [q, k, v] = project(x, pass);
  if (qk_norm_ != QkNorm::None) {
    // Before the transpose: the norm then copies once, and the rotation never.
    q = normed(q, query_norm_, query_norms_);
    k = normed(k, key_norm_, key_norms_);
  }
  q = q.transpose(1, 2);
  k = k.transpose(1, 2);
  if (context.cos.defined()) {
    q = apply_rope(rope_, q, context.cos, context.sin);
    k = apply_rope(rope_, k, context.cos, context.sin);
  }
  return {q, k, v.transpose(1, 2)};
}

at::Tensor Attention::attend_in_slices(const std::array<at::Tensor, 3>& heads,
                                       const AttentionContext& context,
                                       const Pass& pass) const {
  const auto& [q, k, v] = heads;
  // Autocast does not know the operator, so its cast for scaled_dot_product_attention is done here.
  const auto type = attention_type(q.scalar_type(), memory::kernel_type(q.device()));
  return ops::sliced_attention(q.to(type),
                               k.to(type),
                               v.to(type),
                               {.scale = scale_,
                                .softcap = softcap_,
                                .window = context.mask.window,
                                .runs = context.mask.runs,
                                .key_bias = context.key_bias,
                                .dropout = pass.training ? dropout_ : 0.0})
      .transpose(1, 2)
      .flatten(2);
}

// (B, T, heads * head_dim), before the output projection.
at::Tensor Attention::attend(const at::Tensor& x,
                             const AttentionContext& context,
                             const Pass& pass,
                             KvCache* cache) const {
  auto [q, k, v] = heads_of(x, context, pass);
  if (context.query_scale.defined()) {
    q = q * context.query_scale.to(q.scalar_type());
  }
  if (cache != nullptr) {
    std::tie(k, v) = cache->append(layer_, k, v);
  }
  if (has_shaped_scores_) {
    return attend_in_slices({q, k, v}, context, pass);
  }
  const AttentionMask& seen = context.mask;
  if (seen.documents.starts.defined()) {
    return document_attention(q, k, v, seen.documents, scale_).flatten(2);
  }
  bool shares_heads = heads_ != kv_heads_;
  if (shares_heads && seen.allowed.defined() && memory::is_for_cuda(x.device())) {
    // On a GPU no fused kernel takes a mask and shared heads together.
    k = repeat_heads(k, heads_ / kv_heads_);
    v = repeat_heads(v, heads_ / kv_heads_);
    shares_heads = false;
  }
  const auto y =
      fused_attention(q,
                      k,
                      v,
                      {.mask = seen.allowed.defined() ? std::optional(seen.allowed) : std::nullopt,
                       .dropout = pass.training ? dropout_ : 0.0,
                       .is_causal = seen.is_causal,
                       .scale = scale_,
                       .enable_gqa = shares_heads});
  return y.transpose(1, 2).flatten(2);
}

at::Tensor Attention::forward(const at::Tensor& x,
                              const AttentionContext& context,
                              const Pass& pass,
                              KvCache* cache,
                              const at::Tensor& residual) const {
  return output_->forward(attend(x, context, pass, cache), pass, {.residual = residual});
}

}  // namespace reprise
