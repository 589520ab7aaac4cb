// Construction of a model, its accessors, and which blocks are checkpointed.
#include <reprise/model/model.h>

#include "model/families/architecture.h"
#include "model/layers/block.h"
#include "model/module_tree.h"

#include <algorithm>
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

}  // namespace

Model::Model(ModelConfig config, HeadKind head, const at::TensorOptions& options)
    : config_(std::move(config)), head_kind_(head) {
  const Architecture architecture = architecture_of(config_);
  const auto layers = static_cast<size_t>(config_.layers);
  make_embeddings(architecture, options);
  blocks_.reserve(layers);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    blocks_.push_back(adopt(*this,
                            architecture.blocks + "." + std::to_string(layer),
                            std::make_shared<Block>(config_, architecture, layer, options)));
  }
  make_top(architecture, options);
  regions_.resize(layers);
}

void Model::make_embeddings(const Architecture& architecture, const at::TensorOptions& options) {
  const int64_t width = config_.outer_width();
  embedding_ = adopt(*this,
                     architecture.embedding,
                     std::make_shared<Embedding>(config_.vocabulary, width, options));
  if (architecture.pad_embedding_is_fixed) {
    embedding_->fix_row(config_.pad_id);
  }
  if (!architecture.embedding_norm.empty()) {
    embedding_norm_ =
        adopt(*this, architecture.embedding_norm, std::make_shared<Norm>(config_, width, options));
  }
  if (width != config_.hidden) {
    embedding_projection_ =
        adopt(*this,
              architecture.embedding_projection,
              std::make_shared<Linear>(Linear::Shape{.in = width, .out = config_.hidden}, options));
  }
  if (!architecture.positions.empty()) {
    const int64_t rows = config_.max_positions + config_.position_offset;
    positions_ = adopt(
        *this, architecture.positions, std::make_shared<Embedding>(rows, config_.hidden, options));
  }
}

void Model::make_top(const Architecture& architecture, const at::TensorOptions& options) {
  const int64_t width = config_.outer_width();
  if (!architecture.final_norm.empty()) {
    final_norm_ = adopt(
        *this, architecture.final_norm, std::make_shared<Norm>(config_, config_.hidden, options));
  }
  if (width != config_.hidden) {
    output_projection_ =
        adopt(*this,
              architecture.output_projection,
              std::make_shared<Linear>(Linear::Shape{.in = config_.hidden, .out = width}, options));
  }
  if (has_tied_head()) {
    return;
  }
  const bool is_sequence_head = head_kind_ == HeadKind::Score || head_kind_ == HeadKind::Value;
  const bool has_bias = head_kind_ == HeadKind::TokenClasses ||
                        (is_sequence_head && architecture.sequence_head_has_bias) ||
                        (head_kind_ == HeadKind::CausalLm && config_.head_bias);
  head_ = adopt(*this,
                path_of_head(architecture, head_kind_),
                std::make_shared<Linear>(
                    Linear::Shape{.in = width, .out = outputs(), .has_bias = has_bias}, options));
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

void Model::set_pad_id(std::optional<int64_t> id) {
  config_.pad_id = id;
  config_.source["pad_token_id"] = id ? Json(*id) : Json();
}

std::vector<int64_t> Model::recomputed_blocks() const {
  const auto is_trained = [](const auto& module) {
    const auto parameters = module == nullptr ? std::vector<at::Tensor>() : module->parameters();
    return std::any_of(parameters.begin(), parameters.end(), [](const at::Tensor& parameter) {
      return parameter.requires_grad();
    });
  };
  auto blocks = checkpointed_blocks();
  if (is_trained(embedding_) || is_trained(positions_) || is_trained(embedding_norm_) ||
      is_trained(embedding_projection_)) {
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

}  // namespace reprise
