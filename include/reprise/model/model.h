// A decoder-only transformer of any supported family, with one head.
//
//   auto model = reprise::load_model("Llama-3.2-1B").model;  // model/pretrained.h
//   model->enable_checkpointing();                           // every block is recomputed in
//   backward const auto logits = model->forward({.input_ids = ids});
//
// Parameters have the names of Hugging Face checkpoints: named_parameters() of a Llama contains
// model.layers.0.self_attn.q_proj.weight. Which blocks are checkpointed is state of the model,
// independent of train(), of LoRA adapters and of the order of calls.
#pragma once

#include <reprise/export.h>
#include <reprise/model/block_checkpointing.h>
#include <reprise/model/config.h>
#include <reprise/model/head.h>
#include <reprise/model/sharded_parameters.h>
#include <reprise/options.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// What the model computes from the hidden states of the last block.
enum class HeadKind : uint8_t {
  CausalLm,      ///< logits over the vocabulary
  Score,         ///< `labels` numbers per sequence: reward models, *ForSequenceClassification
  Value,         ///< one number per position: critics. Stored like a Score head of one label
                 ///< (score.weight), so that a reward model can become a critic and back
  TokenClasses,  ///< `labels` numbers per position: *ForTokenClassification
};

/// Which LoRA adapters take part in a pass (model/lora.h). Without adapters all three are the same.
enum class AdapterUse : uint8_t {
  Trained,    ///< the adapters that are being trained
  Reference,  ///< a frozen copy of the adapters that training began with; if there is none, as Off
  Off,        ///< the base model
};

/// Which position's score is the score of a sequence. The two differ only for sequences that end
/// with the padding id, as where padding and end are one token.
enum class Pooling : uint8_t {
  LastAttended,     ///< the last token of the sequence, whatever its id
  RightmostNotPad,  ///< the last one whose id is not config.pad_id, as transformers and TRL read it
};

struct ModelInput {
  at::Tensor input_ids;  ///< (B, T) int64
  /// (B, T), with a KV cache (B, past + T); 0 is padding. Undefined: no padding.
  at::Tensor attention_mask = {};
  at::Tensor position_ids = {};  ///< (B, T). Undefined: 0, 1, …; with documents, from 0 in each
  /// (B, T) int64, for packed rows: equal adjacent numbers are one document. Tokens attend only
  /// within their document, so a number must not reappear later in the row.
  at::Tensor document_ids = {};
  /// The same as attention_mask and document_ids together, as bounds (the cu_seqlens of flash
  /// attention): where each run of tokens that attend to each other starts, counted over all rows
  /// one after the other, and B * T at the end. Int32 (runs + 1) on the device of the ids. No run
  /// crosses rows; padding is a run of its own. With it, attention in 16-bit types on a GPU needs
  /// no mask. Undefined: not known.
  at::Tensor document_starts = {};
  int64_t longest_document = 0;  ///< tokens of the longest run; required with document_starts
  AdapterUse adapters = AdapterUse::Trained;
};

struct Architecture;
struct AttentionContext;
struct Pass;
class Block;
class Embedding;
class KvCache;
class Linear;
class Norm;

class REPRISE_API Model : public torch::nn::Module {
 public:
  /// Allocates parameters with this dtype and device, without values: initialize() them, or use
  /// load_model() (model/pretrained.h) instead.
  Model(ModelConfig config, HeadKind head, const at::TensorOptions& options = at::kFloat);
  ~Model() override;

  /// Initialises all parameters as transformers does for a new model.
  void initialize(uint64_t seed);
  /// Initialises the parameters of the head only.
  void initialize_head(uint64_t seed);

  /// Hidden states as the head reads them, (B, T, config().outer_width()). With a cache (as
  /// generate() uses it) the input continues the cached sequences; that throws if gradients are
  /// enabled.
  at::Tensor hidden_states(const ModelInput& input, KvCache* cache = nullptr);
  /// The head applied to hidden states (..., hidden) -> (..., outputs).
  at::Tensor apply_head(const at::Tensor& hidden, AdapterUse adapters = AdapterUse::Trained);
  /// hidden_states() and apply_head(): (B, T, vocabulary), (B, T, labels) or, for a Value head,
  /// (B, T).
  at::Tensor forward(const ModelInput& input);
  /// One row of outputs per sequence, (B, labels). Needs a Score head. With document_ids each
  /// document is a sequence: those of the first row, then those of the next one.
  at::Tensor score(const ModelInput& input, Pooling pooling = Pooling::LastAttended);

  /// Checkpoints the chosen blocks in passes that record gradients; passes without gradients, such
  /// as generation, are not affected. Replaces an earlier choice. A block in which nothing needs a
  /// gradient is not recomputed. In reentrant mode the model makes the input of the first trained
  /// block require a gradient.
  void enable_checkpointing(const BlockChoice& blocks = BlockChoice::all(),
                            const CheckpointOptions& options = {});
  void disable_checkpointing();
  std::vector<int64_t> checkpointed_blocks() const;  ///< ascending; empty: none
  /// The checkpointed blocks that a training step recomputes: those below the lowest trained
  /// parameter are not, since no gradient reaches them.
  std::vector<int64_t> recomputed_blocks() const;
  /// The name of a block in checkpoints, and of its checkpointed region: "model.layers.3".
  std::string block_path(int64_t block) const;

  /// The head as a matrix, for losses that compute logits in chunks (loss/head.h). Needs a CausalLm
  /// head. With an adapter on the head the matrix is weight + adapter, through which gradients
  /// reach the adapter; an adapter with dropout is refused, since dropout acts on its input only.
  LinearHead linear_head(AdapterUse adapters = AdapterUse::Trained) const;

  /// Sets the padding id of the saved config.json, and of Pooling::RightmostNotPad; unset: none.
  void set_pad_id(std::optional<int64_t> id);

  /// NEFTune: adds uniform noise of this strength to the embeddings in passes that record
  /// gradients, in train and in eval mode (which some training runs use to switch dropout off); 0:
  /// none.
  void add_embedding_noise(double alpha) { embedding_noise_ = alpha; }

  /// Computes the head in float32, whatever the parameters' type.
  void compute_head_in_float32(bool enabled) { head_in_float32_ = enabled; }

  /// Set by shard() (parallel/shard.h); null: this process has every parameter as a whole.
  void set_sharded_parameters(std::shared_ptr<ShardedParameters> sharded) {
    sharded_parameters_ = std::move(sharded);
  }
  ShardedParameters* sharded_parameters() const { return sharded_parameters_.get(); }

  /// Set by quantize_model() and load_model(): how the layers are quantised; unset: they are not.
  void set_quantization(std::optional<QuantizationConfig> quantization) {
    config_.quantization = std::move(quantization);
  }

  const ModelConfig& config() const { return config_; }
  HeadKind head() const { return head_kind_; }
  at::Device device() const;
  at::ScalarType dtype() const;
  int64_t outputs() const;  ///< width of the head
  /// The path of the head's module, e.g. "lm_head". A tied head has no tensor of its own there.
  std::string head_path() const;
  bool has_tied_head() const { return head_kind_ == HeadKind::CausalLm && config_.tied_head; }

 private:
  void make_embeddings(const Architecture& architecture, const at::TensorOptions& options);
  void make_top(const Architecture& architecture, const at::TensorOptions& options);
  at::Tensor embed(const ModelInput& input, const at::Tensor& positions, const Pass& pass);
  at::Tensor embed_tokens(const ModelInput& input, const at::Tensor& positions, const Pass& pass);
  at::Tensor run_blocks(at::Tensor x,
                        const std::vector<AttentionContext>& contexts,
                        const Pass& pass,
                        KvCache* cache);
  at::Tensor run_block(size_t index,
                       at::Tensor x,
                       const AttentionContext& context,
                       const Pass& pass,
                       KvCache* cache);
  at::Tensor plain_or_checkpointed(size_t index,
                                   at::Tensor x,
                                   const AttentionContext& context,
                                   const Pass& pass,
                                   KvCache* cache);
  at::Tensor finish(at::Tensor x, const Pass& pass);
  void unshard_head() const;

  ModelConfig config_;
  HeadKind head_kind_;
  bool head_in_float32_ = false;
  double embedding_noise_ = 0;
  std::vector<std::shared_ptr<const CheckpointOptions>> regions_;  // one per block; null: plain
  std::shared_ptr<Embedding> embedding_;
  // Null: the family has none.
  std::shared_ptr<Norm> embedding_norm_;
  std::shared_ptr<Linear> embedding_projection_, output_projection_;
  std::shared_ptr<Embedding> positions_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Norm> final_norm_;                       // null: none
  std::shared_ptr<Linear> head_;                           // null: tied
  std::shared_ptr<ShardedParameters> sharded_parameters_;  // null: none
};

}  // namespace reprise
