// The configuration of a model: the fields of its config.json under one name for all families.
//
// transformers 4 and 5 name some fields differently (rope_theta and rope_scaling, or
// rope_parameters; torch_dtype, or dtype; sliding_window fields, or layer_types), and so do
// families (n_embd, hidden_size). ModelConfig hides these differences.
#pragma once

#include <reprise/export.h>
#include <reprise/io/dtype.h>
#include <reprise/io/json.h>
#include <reprise/model/quantization_config.h>
#include <reprise/ops/activation.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

enum class Family : uint8_t { Llama, Mistral, Qwen2, Qwen3, Gpt2, GptNeox, ChatGlm };

enum class NormKind : uint8_t { Rms, Layer };

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
};

struct ModelConfig {
  Family family = Family::Llama;
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;

  NormKind norm = NormKind::Rms;
  double norm_epsilon = 1e-6;
  Activation activation = Activation::Silu;
  RopeConfig rope;
  std::vector<int64_t> windows;          ///< per layer: size of the attention window; 0: no window
  std::vector<double> attention_scales;  ///< per layer: factor of the scores before the softmax

  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool parallel_residual = false;
  bool tied_head = false;

  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;
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

  /// Reads config.json in a folder. Throws for a family or a value that is not supported, and names
  /// file and field.
  REPRISE_API static ModelConfig read(const std::filesystem::path& folder);
  /// The same from parsed JSON; `source` names it in messages.
  REPRISE_API static ModelConfig from_json(const Json& json, const std::string& source);
};

/// The model_type of a family in transformers: "llama", "gpt_neox", …
REPRISE_API const char* model_type(Family family);

}  // namespace reprise
