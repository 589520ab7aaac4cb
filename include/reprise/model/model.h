// A decoder-only transformer of any supported family, with one head.
//
// Parameters are called as in Hugging Face checkpoints: named_parameters() of a Llama has
// model.layers.0.self_attn.q_proj.weight. Every block can be a checkpointed region; which ones are
// is the model's own state, independent of train(), LoRA and the order of calls.
#pragma once

#include <reprise/export.h>
#include <reprise/model/block_checkpointing.h>
#include <reprise/model/config.h>
#include <reprise/model/head.h>
#include <reprise/model/kv_cache.h>
#include <reprise/model/parameter_keeper.h>
#include <reprise/options.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// What stands on top of the last block.
enum class HeadKind : uint8_t {
  CausalLm,      ///< logits over the vocabulary
  Score,         ///< `labels` numbers for a sequence: reward models, *ForSequenceClassification
  Value,         ///< one number for each position: critics. Stored as a Score head of one label
                 ///< (score.weight), so that a reward model can become a critic and back
  TokenClasses,  ///< `labels` numbers for each position: *ForTokenClassification
};

/// Which adapters take part in a pass: model/lora.h. Without adapters all three are the same.
enum class AdapterUse : uint8_t {
  Trained,    ///< the adapters that are being trained
  Reference,  ///< the frozen copy of an adapter that training began with; none: as Off
  Off,        ///< the base model
};

/// Which position's score stands for a sequence. They differ when padding is an id that texts hold.
enum class Pooling : uint8_t {
  RightmostNotPad,  ///< the rightmost id that is not config.pad_id, as transformers does
  LastAttended,     ///< the last position of the attention mask, as OpenRLHF does
};

struct ModelInput {
  at::Tensor input_ids;       ///< (B, T) int64
  at::Tensor attention_mask;  ///< (B, T), with a KV cache (B, past + T); 0: padding. Undefined: all
  at::Tensor position_ids;    ///< (B, T); undefined: 0, 1, ... or, with documents, from 0 in each
  /// (B, T) int64, for packed rows: a run of equal numbers is a document. Positions see only their
  /// own document, so a number must not come back later in the row.
  at::Tensor document_ids;
  /// What attention_mask and document_ids say, without a mask: where runs of tokens that see each
  /// other begin, over all rows one after the other, and behind them B * T. Int32 (runs + 1), on
  /// the device of the ids; no run crosses rows, and padding is a run of its own. Undefined: not
  /// known. With it the attention of 16-bit types on a GPU needs no mask.
  at::Tensor document_starts;
  int64_t longest_document = 0;  ///< tokens of the longest run; of document_starts
  AdapterUse adapters = AdapterUse::Trained;
};

struct AttentionContext;
struct Pass;
class Block;
class Embedding;
class Linear;
class Norm;

class REPRISE_API Model : public torch::nn::Module {
 public:
  /// Parameters are allocated (options give dtype and device) but hold nothing yet: load them
  /// (model/checkpoint.h) or initialize() them.
  Model(ModelConfig config, HeadKind head, const at::TensorOptions& options = at::kFloat);
  ~Model() override;

  /// Fills all parameters as transformers does for a fresh model, or only those of the head.
  void initialize(uint64_t seed);
  void initialize_head(uint64_t seed);

  /// Hidden states after the last norm, (B, T, hidden). With a cache the input continues what the
  /// cache holds; that is for inference, and refused where gradients are recorded.
  at::Tensor hidden_states(const ModelInput& input, KvCache* cache = nullptr);
  /// The head applied to hidden states (..., hidden) -> (..., outputs).
  at::Tensor apply_head(const at::Tensor& hidden, AdapterUse adapters = AdapterUse::Trained);
  /// Both: (B, T, vocabulary), (B, T, labels) or, for a Value head, (B, T).
  at::Tensor forward(const ModelInput& input);
  /// One row of outputs per sequence, (B, labels). For a Score head.
  at::Tensor score(const ModelInput& input, Pooling pooling = Pooling::RightmostNotPad);

  /// Makes the chosen blocks checkpointed regions, whenever gradients are recorded: passes without
  /// grad and generation never pay. Replaces an earlier choice. A block in which nothing needs a
  /// gradient is not recomputed. In reentrant mode the model itself sees to it that the first
  /// trained block gets an input that requires grad.
  void enable_checkpointing(const BlockChoice& blocks = BlockChoice::all(),
                            const CheckpointOptions& options = {});
  void disable_checkpointing();
  std::vector<int64_t> checkpointed_blocks() const;  ///< ascending; empty: none
  /// Those of them that a training step recomputes: not the ones below the lowest trained
  /// parameter, which no gradient reaches.
  std::vector<int64_t> recomputed_blocks() const;
  /// How a block is called in checkpoints, and as a region: "model.layers.3".
  std::string block_path(int64_t block) const;

  /// The head as a matrix, for losses that make logits in pieces (loss/head.h). For a CausalLm.
  /// With an adapter on the head the matrix is a sum of its own, through which gradients reach the
  /// adapter; one with dropout is refused, since dropout acts on the adapter's input alone.
  LinearHead linear_head(AdapterUse adapters = AdapterUse::Trained) const;

  /// Which id is padding, for score() and the saved config.json.
  void set_pad_id(int64_t id);

  /// NEFTune: uniform noise of this strength on the embeddings of passes that record gradients, in
  /// train and eval mode (which may only mean that there is no dropout); 0: none.
  void add_embedding_noise(double alpha) { embedding_noise_ = alpha; }

  /// Computes the head in float32 whatever the parameters' type (--cast_lm_head_to_fp32).
  void compute_head_in_float32(bool enabled) { head_in_float32_ = enabled; }

  /// Who has the parameters between passes; null: the model itself. See parallel/spread.h.
  void set_keeper(std::shared_ptr<ParameterKeeper> keeper) { keeper_ = std::move(keeper); }
  ParameterKeeper* keeper() const { return keeper_.get(); }

  const ModelConfig& config() const { return config_; }
  HeadKind head() const { return head_kind_; }
  at::Device device() const;
  at::ScalarType dtype() const;
  int64_t outputs() const;  ///< the head's width
  /// Path of the head's module, e.g. "lm_head"; a tied head has no tensor of its own there.
  std::string head_path() const;
  bool has_tied_head() const { return head_kind_ == HeadKind::CausalLm && config_.tied_head; }

 private:
  at::Tensor embed(const ModelInput& input, const at::Tensor& positions);
  at::Tensor run_kept_block(size_t index,
                            at::Tensor x,
                            const AttentionContext& context,
                            const Pass& pass,
                            KvCache* cache);
  at::Tensor run_block(size_t index,
                       at::Tensor x,
                       const AttentionContext& context,
                       const Pass& pass,
                       KvCache* cache);

  ModelConfig config_;
  HeadKind head_kind_;
  bool head_in_float32_ = false;
  double embedding_noise_ = 0;
  std::vector<std::shared_ptr<const CheckpointOptions>> regions_;  // one per block; null: plain
  std::shared_ptr<Embedding> embedding_;
  std::shared_ptr<Embedding> positions_;  // null: the family has none
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Norm> final_norm_;
  std::shared_ptr<Linear> head_;             // null: tied
  std::shared_ptr<ParameterKeeper> keeper_;  // null: none
};

}  // namespace reprise
