// The configuration of a model: the fields of its config.json under one name for all families.
//
// transformers 4 and 5 name some fields differently (rope_theta and rope_scaling, or
// rope_parameters; torch_dtype, or dtype; sliding_window fields, or layer_types), and so do
// families (n_embd, hidden_size). ModelConfig hides these differences.
#pragma once

#include <reprise/export.h>
#include <reprise/io/dtype.h>
#include <reprise/io/json.h>
#include <reprise/model/head.h>
#include <reprise/model/quantization_config.h>
#include <reprise/ops/activation.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

enum class NormKind : uint8_t { Rms, Layer };

/// What the norms of queries and keys go over.
enum class QkNorm : uint8_t {
  None,
  Head,        ///< each head by itself, with one weight for all heads (Qwen3, Gemma 3)
  EachHead,    ///< each head by itself, with a weight of its own and no bias (StableLM 2)
  Projection,  ///< all heads as one row (OLMo 2)
};

/// Rotary position embedding.
struct RopeConfig {
  enum class Pairing : uint8_t {
    Halves,      ///< rotates pairs (i, i + dims / 2): Llama, GPT-NeoX
    Neighbours,  ///< rotates pairs (2i, 2i + 1): ChatGLM
  };
  /// How a model that was trained on short rows reads longer ones, by transformers' names.
  enum class Scaling : uint8_t { None, Linear, Dynamic, Yarn, LongRope, Llama3, Proportional };

  int64_t dims = 0;  ///< leading dimensions of a head that are rotated; 0: no rotary embedding
  double theta = 10000.0;
  Pairing pairing = Pairing::Halves;
  Scaling scaling = Scaling::None;
  double factor = 1.0;
  int64_t original_positions = 8192;  ///< positions that the frequencies were trained for
  double attention_factor = 1.0;      ///< of cos and sin: Yarn and LongRope
  double low_frequency_factor = 1.0;  ///< this and the next are for Llama3
  double high_frequency_factor = 4.0;
  double fast_rotations = 32.0;  ///< this and the next two are for Yarn
  double slow_rotations = 1.0;
  bool has_whole_bounds = true;
  /// Divisors of the frequencies, dims / 2 each: LongRope takes the second for rows that are longer
  /// than original_positions.
  std::vector<double> short_factors, long_factors;
  int64_t turning_dims = 0;  ///< Proportional: the dimensions that turn; the others stay

  bool operator==(const RopeConfig&) const = default;
};

/// Queries far in a row are multiplied by 1 + growth log(1 + floor(position / period)), as in
/// Llama 4 and Ministral 3.
struct QueryGrowth {
  double growth = 0;  ///< 0: none
  int64_t period = 0;
};

/// ALiBi: a score grows with the position of its key, by a slope for each head.
struct Alibi {
  bool in_bfloat16 = false;  ///< computed in bfloat16, whatever the model's type (Falcon)
  bool is_scaled = false;    ///< divided by the square root of the head size, as products are
};

/// Which part of a model of text and of images or sound.
enum class ModelPart : uint8_t {
  Whole,       ///< a model that has other parts is refused
  Text,        ///< the text part alone; a model that has no other parts is refused
  TextIfMixed  ///< the text part where there are others
};

struct ModelConfig {
  std::string family = "llama";  ///< its model_type in transformers
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;

  NormKind norm = NormKind::Rms;
  bool norm_has_weight = true;  ///< this and the next are for NormKind::Layer
  bool norm_has_bias = true;
  bool norm_adds_one = false;  ///< rows are multiplied by weight + 1 (Gemma)
  double norm_epsilon = 1e-6;
  Activation activation = Activation::Silu;
  RopeConfig rope;  ///< of the layers that attend to everything
  /// Per layer, where they differ; without dims: no rotary embedding in that layer. Empty: `rope`.
  std::vector<RopeConfig> ropes;
  QueryGrowth query_growth;
  bool has_learned_positions = false;
  int64_t position_offset = 0;          ///< rows of their table before that of position 0
  bool positions_skip_padding = false;  ///< without position_ids, only attended tokens are counted
  std::optional<Alibi> alibi;
  std::vector<int64_t> windows;          ///< per layer: size of the attention window; 0: no window
  std::vector<double> attention_scales;  ///< per layer: factor of the scores before the softmax
  double attention_softcap = 0;  ///< scores become softcap tanh(score / softcap); 0: they stay

  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  QkNorm qk_norm = QkNorm::None;
  bool parallel_residual = false;
  bool shares_norm = false;         ///< parallel branches read one norm
  bool is_post_norm = false;        ///< norms are of the sums of branches and residual
  bool residual_is_normed = false;  ///< branches are added to what they read
  bool has_final_norm = true;
  bool tied_head = false;
  bool head_bias = false;       ///< of the language-model head
  int64_t embedding_width = 0;  ///< of embeddings and head, which are projected; 0: hidden

  double embedding_scale = 1;           ///< embeddings are multiplied by it
  bool rounds_embedding_scale = false;  ///< to the type of the embedding, as Gemma does
  double residual_scale = 1;            ///< what a branch adds to the residual is multiplied by it
  LogitShape logit_shape;               ///< of the language-model head

  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;                       ///< of what the branches add
  std::optional<double> attention_residual_dropout;  ///< of attention's branch, where it differs
  bool drops_sum = false;                            ///< parallel branches are dropped as one sum
  double classifier_dropout = 0;
  double initializer_range = 0.02;

  std::optional<int64_t> bos_id, pad_id;
  std::vector<int64_t> eos_ids;
  std::optional<at::ScalarType> dtype;
  int64_t labels = 2;        ///< outputs of a classification head; 2 is transformers' default
  std::string architecture;  ///< e.g. "LlamaForCausalLM"; empty: not in the file
  std::optional<QuantizationConfig> quantization;  ///< unset: weights are not quantised

  Json source;                        ///< the original config.json, for export
  std::vector<std::string> warnings;  ///< about fields that are not known and were ignored

  int64_t outer_width() const { return embedding_width > 0 ? embedding_width : hidden; }
  const RopeConfig& rope_of(int64_t layer) const {
    return ropes.empty() ? rope : ropes.at(static_cast<size_t>(layer));
  }

  /// Reads config.json in a folder. Throws for a family or a value that is not supported, and names
  /// file and field, and what the nearest family lacks.
  REPRISE_API static ModelConfig read(const std::filesystem::path& folder,
                                      ModelPart part = ModelPart::Whole);
  /// The same from parsed JSON; `source` names it in messages.
  REPRISE_API static ModelConfig from_json(const Json& json, const std::string& source);
};

}  // namespace reprise
