#include <reprise/model/model.h>

#include "model/architecture.h"
#include "model/block.h"
#include "model/joined_blocks.h"
#include "model/module_tree.h"
#include "model/rope.h"
#include "ops/few_rows_linear.h"

#include <reprise/autocast.h>
#include <reprise/checkpoint.h>
#include <reprise/cuda_kernels.h>
#include <reprise/detail/planned_device.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace reprise {

namespace {

std::string path_of_head(const Architecture& architecture, HeadKind kind) {
  switch (kind) {
    case HeadKind::CausalLm:
      return architecture.lm_head;
    case HeadKind::Score:
    case HeadKind::Value:
      return architecture.sequence_head;
    case HeadKind::TokenClasses:
      break;
  }
  return architecture.token_head;
}

// Asked in this order: looking through a block's parameters is the dear part.
bool runs_as_region(const std::shared_ptr<const CheckpointOptions>& region,
                    const Block& block,
                    const at::Tensor& x,
                    const Pass& pass) {
  return region != nullptr && !pass.has_cache && at::GradMode::is_enabled() &&
         (x.requires_grad() || block.is_trained(pass.adapters));
}

// Whoever asks for the head may do so before or after the pass that it belongs to.
void bring_head(ParameterKeeper* keeper, size_t blocks) {
  if (keeper != nullptr) {
    keeper->enter(blocks + 1, {});
  }
}

}  // namespace

Model::Model(ModelConfig config, HeadKind head, const at::TensorOptions& options)
    : config_(std::move(config)), head_kind_(head) {
  const Architecture architecture = architecture_of(config_);
  const auto layers = static_cast<size_t>(config_.layers);
  embedding_ = adopt(*this,
                     architecture.embedding,
                     std::make_shared<Embedding>(config_.vocabulary, config_.hidden, options));
  if (!architecture.positions.empty()) {
    positions_ = adopt(*this,
                       architecture.positions,
                       std::make_shared<Embedding>(config_.max_positions, config_.hidden, options));
  }
  blocks_.reserve(layers);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    blocks_.push_back(adopt(*this,
                            architecture.blocks + "." + std::to_string(layer),
                            std::make_shared<Block>(config_, architecture, layer, options)));
  }
  final_norm_ =
      adopt(*this,
            architecture.final_norm,
            std::make_shared<Norm>(config_.norm, config_.hidden, config_.norm_epsilon, options));
  if (!has_tied_head()) {
    const bool is_sequence_head = head == HeadKind::Score || head == HeadKind::Value;
    const bool has_bias =
        head == HeadKind::TokenClasses || (is_sequence_head && architecture.sequence_head_has_bias);
    head_ = adopt(
        *this,
        path_of_head(architecture, head),
        std::make_shared<Linear>(
            Linear::Shape{config_.hidden, outputs(), has_bias, WeightLayout::OutIn}, options));
  }
  regions_.resize(layers);
}

Model::~Model() = default;

at::Device Model::device() const {
  return embedding_->weight.device();
}

at::ScalarType Model::dtype() const {
  return embedding_->weight.scalar_type();
}

int64_t Model::outputs() const {
  switch (head_kind_) {
    case HeadKind::CausalLm:
      return config_.vocabulary;
    case HeadKind::Value:
      return 1;
    case HeadKind::Score:
    case HeadKind::TokenClasses:
      break;
  }
  return config_.labels;
}

std::string Model::head_path() const {
  return path_of_head(architecture_of(config_), head_kind_);
}

void Model::enable_checkpointing(const BlockChoice& blocks, const CheckpointOptions& options) {
  const auto chosen = blocks.choose(config_.layers);
  disable_checkpointing();
  for (const int64_t block : chosen) {
    CheckpointOptions named = options;
    if (named.name.empty()) {
      named.name = block_path(block);
    }
    regions_[static_cast<size_t>(block)] =
        std::make_shared<const CheckpointOptions>(std::move(named));
  }
}

void Model::disable_checkpointing() {
  regions_.assign(blocks_.size(), nullptr);
}

std::vector<int64_t> Model::checkpointed_blocks() const {
  std::vector<int64_t> blocks;
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i] != nullptr) {
      blocks.push_back(static_cast<int64_t>(i));
    }
  }
  return blocks;
}

void Model::set_pad_id(int64_t id) {
  config_.pad_id = id;
  config_.source["pad_token_id"] = id;
}

std::vector<int64_t> Model::recomputed_blocks() const {
  const auto is_trained = [](const auto& module) {
    return module != nullptr && module->weight.requires_grad();
  };
  auto blocks = checkpointed_blocks();
  if (is_trained(embedding_) || is_trained(positions_)) {
    return blocks;
  }
  const auto first = std::find_if(blocks_.begin(), blocks_.end(), [](const auto& block) {
    return block->is_trained(AdapterUse::Trained);
  });
  const auto lowest = static_cast<int64_t>(first - blocks_.begin());
  std::erase_if(blocks, [&](int64_t block) { return block < lowest; });
  return blocks;
}

std::string Model::block_path(int64_t block) const {
  return architecture_of(config_).blocks + "." + std::to_string(block);
}

at::Tensor Model::embed(const ModelInput& input, const at::Tensor& positions) {
  auto x = embedding_->forward(input.input_ids, input.adapters);
  if (positions_ != nullptr) {
    x = x + positions_->forward(positions, input.adapters);
  }
  if (embedding_noise_ > 0 && at::GradMode::is_enabled()) {
    const double strength =
        embedding_noise_ / std::sqrt(static_cast<double>(x.size(1) * x.size(2)));
    x = x + at::empty_like(x).uniform_(-strength, strength);
  }
  const double dropout = config_.embedding_dropout;
  return dropout > 0 && is_training() ? at::dropout(x, dropout, true) : x;
}

at::Tensor Model::hidden_states(const ModelInput& input, KvCache* cache) {
  if (input.input_ids.is_cuda()) {
    load_cuda_kernels();
  }
  TORCH_CHECK(
      cache == nullptr || !at::GradMode::is_enabled(),
      "[model] a KV cache is for inference: switch gradients off (torch::NoGradGuard), or pass "
      "the whole sequence without a cache.");
  const int64_t past = cache == nullptr ? 0 : cache->length();
  const bool goes_by_runs =
      input.document_starts.defined() &&
      serves_documents(
          config_,
          {.device = detail::kernel_type(input.input_ids.device()),
           .type = attention_type(dtype(), detail::kernel_type(input.input_ids.device())),
           .head_dim = config_.head_dim,
           .dropout = is_training() ? config_.attention_dropout : 0.0,
           .has_cache = cache != nullptr});
  const auto masks = attention_masks(input, past, config_.windows, goes_by_runs);
  const auto positions = positions_of(input, past);
  TORCH_CHECK(positions_ == nullptr || past + input.input_ids.size(1) <= config_.max_positions,
              "[model] a sequence of ",
              past + input.input_ids.size(1),
              " tokens: this model has learned ",
              config_.max_positions,
              " positions.");
  const RopeTables rope = rope_tables(config_.rope, positions);
  const Pass pass{is_training(), input.adapters, /*has_cache=*/cache != nullptr};
  std::optional<WithoutAutocastCache> no_cache;
  if (keeper_ != nullptr) {
    no_cache.emplace();  // what it keeps would be a second model, whole
    keeper_->enter(0, {});
  }
  auto x = embed(input, positions);
  if (keeper_ != nullptr) {
    x = keeper_->leave(0, std::move(x));
  }
  std::vector<AttentionContext> contexts;
  contexts.reserve(config_.windows.size());
  for (const int64_t window : config_.windows) {
    contexts.push_back({rope.cos, rope.sin, masks.at(window)});
  }
  for (size_t i = 0; i < blocks_.size();) {
    // A keeper counts blocks one by one.
    const bool is_planned = keeper_ == nullptr && detail::has_region_planner() &&
                            runs_as_region(regions_[i], *blocks_[i], x, pass);
    if (const auto joined = is_planned ? joined_from(regions_, i) : std::nullopt) {
      x = run_joined(*joined, blocks_, contexts, i, pass, std::move(x));
      i += joined->inside.size();
    } else {
      x = run_kept_block(i, std::move(x), contexts[i], pass, cache);
      ++i;
    }
  }
  if (cache != nullptr) {
    cache->advance(input.input_ids.size(1));
  }
  if (keeper_ != nullptr) {
    x = keeper_->enter(blocks_.size() + 1, std::move(x));  // the head is the unit's too: no leave
  }
  return final_norm_->forward(x);
}

at::Tensor Model::run_kept_block(
    size_t index, at::Tensor x, const AttentionContext& context, const Pass& pass, KvCache* cache) {
  if (keeper_ == nullptr) {
    return run_block(index, std::move(x), context, pass, cache);
  }
  x = keeper_->enter(index + 1, std::move(x));
  return keeper_->leave(index + 1, run_block(index, std::move(x), context, pass, cache));
}

at::Tensor Model::run_block(
    size_t index, at::Tensor x, const AttentionContext& context, const Pass& pass, KvCache* cache) {
  const auto& block = blocks_[index];
  const auto& region = regions_[index];
  if (!runs_as_region(region, *block, x, pass)) {
    return block->forward(x, context, pass, cache);
  }
  if (region->use_reentrant && !x.requires_grad()) {
    // The reentrant variant follows gradients through its arguments only. Nothing lies below that
    // could be trained, so the gradient ends here.
    x = x.detach().requires_grad_();
  }
  const auto run = [block](const at::Tensor& input, const AttentionContext& shared, Pass mode) {
    return block->forward(input, shared, mode);
  };
  return checkpoint(*region, run, std::move(x), context, pass);
}

at::Tensor Model::apply_head(const at::Tensor& hidden, AdapterUse adapters) {
  bring_head(keeper_.get(), blocks_.size());
  auto x = hidden;
  const bool is_classifier = head_kind_ == HeadKind::TokenClasses;
  if (is_classifier && is_training() && config_.classifier_dropout > 0) {
    x = at::dropout(x, config_.classifier_dropout, true);
  }
  const Pass pass{is_training(), adapters};
  if (head_ != nullptr) {
    return head_in_float32_ ? head_->forward_in_float32(x, pass) : head_->forward(x, pass);
  }
  if (head_in_float32_) {
    return linear_in_float32(x, embedding_->weight);
  }
  return apply_linear(x, embedding_->weight);
}

LinearHead Model::linear_head(AdapterUse adapters) const {
  TORCH_CHECK(head_kind_ == HeadKind::CausalLm,
              "[model] a language-model head was asked for; this model has another kind.");
  bring_head(keeper_.get(), blocks_.size());
  if (head_ == nullptr) {
    return {embedding_->weight, {}, head_in_float32_};
  }
  return head_->as_head(Pass{is_training(), adapters}, head_in_float32_);
}

at::Tensor Model::forward(const ModelInput& input) {
  const auto result = apply_head(hidden_states(input), input.adapters);
  return head_kind_ == HeadKind::Value ? result.squeeze(-1) : result;
}

}  // namespace reprise
