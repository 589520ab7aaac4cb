// The forward pass of a model: attention contexts, embeddings, blocks, last norm, head.
//
// A block runs plainly, as a checkpointed region, or joined with its neighbours in one region where
// a memory plan says so. A model that is sharded over processes brackets every unit (embeddings,
// each block, the top) with enter() and leave() of its ShardedParameters.
#include <reprise/model/model.h>

#include "model/generation/kv_cache.h"
#include "model/layers/attention_context.h"
#include "model/layers/block.h"
#include "model/layers/joined_blocks.h"

#include <reprise/autocast.h>
#include <reprise/checkpoint.h>
#include <reprise/ops/cuda_kernels.h>

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <utility>

namespace reprise {

namespace {

// Tested in this order: looking through a block's parameters is the expensive part.
bool runs_as_region(const std::shared_ptr<const CheckpointOptions>& region,
                    const Block& block,
                    const at::Tensor& x,
                    const Pass& pass) {
  return region != nullptr && !pass.has_cache && at::GradMode::is_enabled() &&
         (x.requires_grad() || block.is_trained(pass.adapters));
}

double rounded(double value, at::ScalarType type) {
  return at::scalar_tensor(value, at::device(at::kCPU).dtype(type)).item<double>();
}

}  // namespace

at::Tensor Model::hidden_states(const ModelInput& input, KvCache* cache) {
  if (input.input_ids.is_cuda()) {
    load_cuda_kernels();
  }
  TORCH_CHECK(
      cache == nullptr || !at::GradMode::is_enabled(),
      "[model] a KV cache is for inference: switch gradients off (torch::NoGradGuard), or pass "
      "the whole sequence without a cache.");
  const bool has_cache = cache != nullptr;
  const auto contexts =
      prepare_attention(config_,
                        input,
                        {.dtype = dtype(),
                         .dropout = is_training() ? config_.attention_dropout : 0.0,
                         .has_learned_positions = positions_ != nullptr,
                         .has_cache = has_cache,
                         .past = has_cache ? cache->length() : 0});
  const Pass pass{is_training(), input.adapters, has_cache};
  std::optional<WithoutAutocastCache> no_autocast_cache;
  if (sharded_parameters_ != nullptr) {
    no_autocast_cache.emplace();  // it would keep a copy of every unsharded weight
  }
  auto x = embed(input, contexts.positions, pass);
  x = run_blocks(std::move(x), contexts.by_block, pass, cache);
  if (has_cache) {
    cache->advance(input.input_ids.size(1));
  }
  return finish(std::move(x), pass);
}

at::Tensor Model::embed(const ModelInput& input, const at::Tensor& positions, const Pass& pass) {
  if (sharded_parameters_ == nullptr) {
    return embed_tokens(input, positions, pass);
  }
  sharded_parameters_->enter(0, {});
  return sharded_parameters_->leave(0, embed_tokens(input, positions, pass));
}

at::Tensor Model::embed_tokens(const ModelInput& input,
                               const at::Tensor& positions,
                               const Pass& pass) {
  auto x = embedding_->forward(input.input_ids, input.adapters);
  if (config_.embedding_scale != 1) {
    x = x * (config_.rounds_embedding_scale ? rounded(config_.embedding_scale, x.scalar_type())
                                            : config_.embedding_scale);
  }
  if (embedding_noise_ > 0 && at::GradMode::is_enabled()) {
    const double strength =
        embedding_noise_ / std::sqrt(static_cast<double>(x.size(1) * x.size(2)));
    x = x + at::empty_like(x).uniform_(-strength, strength);
  }
  if (embedding_norm_ != nullptr) {
    x = embedding_norm_->forward(x);
  }
  if (embedding_projection_ != nullptr) {
    x = embedding_projection_->forward(x, pass);
  }
  if (positions_ != nullptr) {
    const int64_t offset = config_.position_offset;
    x = x + positions_->forward(offset == 0 ? positions : positions + offset, input.adapters);
  }
  const double dropout = config_.embedding_dropout;
  return dropout > 0 && is_training() ? at::dropout(x, dropout, true) : x;
}

at::Tensor Model::run_blocks(at::Tensor x,
                             const std::vector<AttentionContext>& contexts,
                             const Pass& pass,
                             KvCache* cache) {
  for (size_t i = 0; i < blocks_.size();) {
    // Sharded models run block by block: ShardedParameters counts them.
    const bool is_planned = sharded_parameters_ == nullptr && detail::has_region_planner() &&
                            runs_as_region(regions_[i], *blocks_[i], x, pass);
    if (const auto joined = is_planned ? joined_from(regions_, i) : std::nullopt) {
      x = run_joined(*joined, blocks_, contexts, i, pass, std::move(x));
      i += joined->inside.size();
    } else {
      x = run_block(i, std::move(x), contexts[i], pass, cache);
      ++i;
    }
  }
  return x;
}

at::Tensor Model::run_block(
    size_t index, at::Tensor x, const AttentionContext& context, const Pass& pass, KvCache* cache) {
  if (sharded_parameters_ == nullptr) {
    return plain_or_checkpointed(index, std::move(x), context, pass, cache);
  }
  const size_t unit = index + 1;
  x = sharded_parameters_->enter(unit, std::move(x));
  return sharded_parameters_->leave(
      unit, plain_or_checkpointed(index, std::move(x), context, pass, cache));
}

at::Tensor Model::plain_or_checkpointed(
    size_t index, at::Tensor x, const AttentionContext& context, const Pass& pass, KvCache* cache) {
  const auto& block = blocks_[index];
  const auto& region = regions_[index];
  if (!runs_as_region(region, *block, x, pass)) {
    return block->forward(x, context, pass, cache);
  }
  if (region->use_reentrant && !x.requires_grad()) {
    // The reentrant variant follows gradients through its arguments only. Nothing below this block
    // is trained, so the gradient ends here.
    x = x.detach().requires_grad_();
  }
  const auto run = [block](const at::Tensor& input, const AttentionContext& shared, Pass mode) {
    return block->forward(input, shared, mode);
  };
  return checkpoint(*region, run, std::move(x), context, pass);
}

at::Tensor Model::finish(at::Tensor x, const Pass& pass) {
  if (sharded_parameters_ != nullptr) {
    // No leave(): the head belongs to the same unit.
    x = sharded_parameters_->enter(blocks_.size() + 1, std::move(x));
  }
  if (final_norm_ != nullptr) {
    x = final_norm_->forward(x);
  }
  return output_projection_ == nullptr ? x : output_projection_->forward(x, pass);
}

void Model::unshard_head() const {
  if (sharded_parameters_ != nullptr) {
    sharded_parameters_->enter(blocks_.size() + 1, {});
  }
}

at::Tensor Model::apply_head(const at::Tensor& hidden, AdapterUse adapters) {
  unshard_head();
  auto x = hidden;
  const bool is_classifier = head_kind_ == HeadKind::TokenClasses;
  if (is_classifier && is_training() && config_.classifier_dropout > 0) {
    x = at::dropout(x, config_.classifier_dropout, true);
  }
  const auto precision = head_in_float32_ ? Precision::Float32 : Precision::AsGiven;
  const auto products =
      head_ == nullptr ? apply_linear(x, embedding_->weight, {}, precision)
                       : head_->forward(x, Pass{is_training(), adapters}, {.precision = precision});
  return head_kind_ == HeadKind::CausalLm ? shaped_logits(products, config_.logit_shape) : products;
}

LinearHead Model::linear_head(AdapterUse adapters) const {
  TORCH_CHECK(head_kind_ == HeadKind::CausalLm,
              "[model] linear_head() needs a model with a CausalLm head.");
  unshard_head();
  LinearHead head = head_ == nullptr
                        ? LinearHead{embedding_->weight, {}, head_in_float32_}
                        : head_->as_head(Pass{is_training(), adapters}, head_in_float32_);
  head.shape = config_.logit_shape;
  return head;
}

at::Tensor Model::forward(const ModelInput& input) {
  const auto result = apply_head(hidden_states(input), input.adapters);
  return head_kind_ == HeadKind::Value ? result.squeeze(-1) : result;
}

}  // namespace reprise
