// What a model is: the numbers of its config.json, in one spelling for all families.
//
// transformers 4 and 5 spell some fields differently (rope_theta and rope_scaling, or
// rope_parameters; torch_dtype, or dtype; sliding_window fields, or layer_types), and families name
// the same thing differently (n_embd, hidden_size). All of that ends here.
#pragma once

#include <reprise/activation.h>
#include <reprise/export.h>
#include <reprise/io/dtype.h>
#include <reprise/io/json.h>

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
    Halves,      ///< dimension i turns with i + dims/2 (Llama, GPT-NeoX)
    Neighbours,  ///< dimension 2i turns with 2i + 1 (ChatGLM)
  };
  enum class Scaling : uint8_t { None, Linear, Llama3 };

  int64_t dims = 0;  ///< leading dimensions of a head that turn; 0: no rotary embedding
  double theta = 10000.0;
  Pairing pairing = Pairing::Halves;
  Scaling scaling = Scaling::None;
  double factor = 1.0;
  double low_frequency_factor = 1.0;  ///< Llama3 only, as the two below
  double high_frequency_factor = 4.0;
  int64_t original_positions = 8192;
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
  std::vector<int64_t> windows;  ///< per layer: how many positions back attention sees; 0: all
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
  int64_t labels = 2;        ///< outputs of a classification head: transformers' default is 2
  std::string architecture;  ///< e.g. "LlamaForCausalLM"; empty if the file says none

  Json source;                        ///< config.json as it was, for export
  std::vector<std::string> warnings;  ///< fields that were not understood and have no known effect

  /// Reads config.json of a folder. Throws, naming file and field, for a family or a value that is
  /// not supported.
  REPRISE_API static ModelConfig read(const std::filesystem::path& folder);
  REPRISE_API static ModelConfig from_json(const Json& json, const std::string& source);
};

/// transformers' name of a family: "llama", "gpt_neox", ...
REPRISE_API const char* model_type(Family family);

}  // namespace reprise
