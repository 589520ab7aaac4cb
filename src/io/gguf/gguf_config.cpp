// llama.* metadata to config.json, with the field names that every version of transformers reads. A
// key that changes what the model computes and has no counterpart here is refused, not dropped.
#include "io/gguf/gguf_config.h"

#include "io/config_ranges.h"

#include <reprise/io/dtype.h>

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace reprise::io {
namespace {

constexpr const char* kRopeFactors = "rope_freqs.weight";
constexpr double kDefaultTheta = 10'000.0;  // llama.cpp's, when the file says nothing

/// Keys of the architecture that are read, here or by the tokenizer.
constexpr std::array<std::string_view, 15> kKnownKeys = {
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.attention.value_length",
    "llama.block_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.expert_count",
    "llama.expert_used_count",
    "llama.feed_forward_length",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scaling.type",
    "llama.vocab_size",
};

/// Keys of variants that are not plain llama.
constexpr std::array<std::string_view, 9> kRefusedKeys = {
    "llama.attention.clamp_kqv",
    "llama.attention.scale",
    "llama.attention.sliding_window",
    "llama.embedding_scale",
    "llama.logit_scale",
    "llama.residual_scale",
    "llama.rope.scale_linear",
    "llama.rope.scaling.attn_factor",
    "llama.use_parallel_residual",
};

int64_t positive(const GgufFields& fields, const std::string& key) {
  const int64_t value = fields.required(fields.integer(key), key);
  if (value == 0) {
    fields.refuse(key, "an integer from 1", "0");
  }
  return value;
}

/// A number of the range that config.json may have too.
double number_in(
    const GgufFields& fields, const std::string& key, double fallback, double least, double most) {
  const double value = fields.number(key).value_or(fallback);
  if (!(value >= least && value <= most)) {
    fields.refuse(key, c10::str("a number from ", least, " to ", most), c10::str(value));
  }
  return value;
}

void refuse_other_models(const GgufFields& fields) {
  const std::string architecture =
      fields.required(fields.string("general.architecture"), "general.architecture");
  if (architecture != "llama") {
    fields.refuse("general.architecture", "\"llama\"", "\"" + architecture + "\"");
  }
  for (const std::string_view key : kRefusedKeys) {
    if (fields.find(std::string(key)) != nullptr) {
      fields.refuse(std::string(key), "no such key in a llama model", "it");
    }
  }
  if (const int64_t experts = fields.integer("llama.expert_count").value_or(0); experts != 0) {
    fields.refuse(
        "llama.expert_count", "0 (a mixture of experts is not supported)", std::to_string(experts));
  }
  const std::string scaling = fields.string("llama.rope.scaling.type").value_or("none");
  const double factor = fields.number("llama.rope.scaling.factor").value_or(1.0);
  if (factor != 1.0 && factor != 0.0) {  // llama.cpp takes it as linear scaling
    fields.refuse("llama.rope.scaling.factor", "1 (no scaling)", std::to_string(factor));
  }
  if (scaling != "none") {
    fields.refuse("llama.rope.scaling.type",
                  std::string("\"none\", or llama3's scaling as the tensor ") + kRopeFactors,
                  "\"" + scaling + "\"");
  }
}

int64_t head_dimension(const GgufFields& fields, int64_t hidden, int64_t heads) {
  const int64_t head_dim = fields.integer("llama.attention.key_length").value_or(hidden / heads);
  if (head_dim < 2 || head_dim % 2 != 0) {
    fields.refuse("llama.attention.key_length", "an even number", std::to_string(head_dim));
  }
  for (const std::string key : {"llama.attention.value_length", "llama.rope.dimension_count"}) {
    if (const int64_t size = fields.integer(key).value_or(head_dim); size != head_dim) {
      fields.refuse(
          key, "the " + std::to_string(head_dim) + " dimensions of a head", std::to_string(size));
    }
  }
  return head_dim;
}

struct Llama3Scaling {
  double factor;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_positions = 8192;
};

/// By how much llama3's scaling divides a rotary frequency.
double frequency_divisor(double frequency, const Llama3Scaling& scaling) {
  const double turns = static_cast<double>(scaling.original_positions) * frequency / (2 * M_PI);
  if (turns > scaling.high_freq_factor) {
    return 1.0;
  }
  if (turns < scaling.low_freq_factor) {
    return scaling.factor;
  }
  const double smooth =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return 1.0 / ((1.0 - smooth) / scaling.factor + smooth);
}

// Note [llama3 scaling in GGUF]
// A converter turns the four numbers of llama3's rope scaling into one divisor per frequency, and
// stores these as a tensor. The largest of them is the factor; the other three numbers are the same
// in every published model. So they are assumed, and every divisor is computed and compared: a file
// for which they are wrong is refused.
Json rope_scaling(const GgufFile& file, const LlamaSizes& sizes, double theta) {
  const GgufTensor* const tensor = file.find(kRopeFactors);
  if (tensor == nullptr) {
    return nullptr;
  }
  const std::string where =
      "[gguf] " + file.path().string() + ": tensor \"" + kRopeFactors + "\": ";
  const int64_t count = sizes.head_dim / 2;
  TORCH_CHECK(count > 0 && tensor->shape == std::vector<int64_t>{count},
              where,
              "expected shape [",
              count,
              "], found ",
              at::IntArrayRef(tensor->shape));
  std::vector<float> found(static_cast<size_t>(count));
  file.read(*tensor, found);
  const Llama3Scaling scaling = {.factor = *std::max_element(found.begin(), found.end())};
  for (size_t i = 0; i < found.size(); ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(sizes.head_dim);
    const double expected = frequency_divisor(std::pow(theta, -exponent), scaling);
    constexpr double kRounding = 1e-4;  // converters compute in float32
    TORCH_CHECK(std::abs(found[i] - expected) <= kRounding * expected,
                where,
                "expected llama3's scaling, which divides frequency ",
                i,
                " by ",
                expected,
                ", found ",
                found[i]);
  }
  return {{"factor", scaling.factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"original_max_position_embeddings", scaling.original_positions},
          {"rope_type", "llama3"}};
}

void check_dtype(at::ScalarType dtype) {
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
              "[gguf] import: expected a dtype of float32, bfloat16 or float16, found ",
              c10::toString(dtype));
}

void add_token_ids(Json& json, const GgufFields& fields) {
  for (const auto& [name, key] : {std::pair("bos_token_id", "tokenizer.ggml.bos_token_id"),
                                  std::pair("eos_token_id", "tokenizer.ggml.eos_token_id"),
                                  std::pair("pad_token_id", "tokenizer.ggml.padding_token_id")}) {
    const auto id = fields.integer(key);
    json[name] = id ? Json(*id) : Json(nullptr);
  }
}

}  // namespace

LlamaSizes llama_sizes(const GgufFile& file) {
  const GgufFields fields(file);
  refuse_other_models(fields);
  LlamaSizes sizes{};
  sizes.layers = positive(fields, "llama.block_count");
  sizes.hidden = positive(fields, "llama.embedding_length");
  sizes.intermediate = positive(fields, "llama.feed_forward_length");
  sizes.heads = positive(fields, "llama.attention.head_count");
  sizes.kv_heads = fields.integer("llama.attention.head_count_kv").value_or(sizes.heads);
  if (sizes.kv_heads == 0 || sizes.heads % sizes.kv_heads != 0) {
    fields.refuse("llama.attention.head_count_kv",
                  "a divisor of the " + std::to_string(sizes.heads) + " heads",
                  std::to_string(sizes.kv_heads));
  }
  sizes.head_dim = head_dimension(fields, sizes.hidden, sizes.heads);
  const GgufTensor* const embedding = file.find("token_embd.weight");
  TORCH_CHECK(embedding != nullptr && embedding->shape.size() == 2,
              "[gguf] ",
              file.path().string(),
              ": expected a tensor \"token_embd.weight\" of two dimensions, found ",
              embedding == nullptr ? "none" : "another shape");
  sizes.vocabulary = embedding->shape[0];
  return sizes;
}

Json llama_config(const GgufFile& file,
                  const LlamaSizes& sizes,
                  at::ScalarType dtype,
                  std::vector<std::string>& warnings) {
  check_dtype(dtype);
  const GgufFields fields(file);
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("llama.") &&
        std::find(kKnownKeys.begin(), kKnownKeys.end(), key) == kKnownKeys.end()) {
      warnings.push_back(key + " has no place in config.json and is dropped");
    }
  }
  const double theta = number_in(fields,
                                 "llama.rope.freq_base",
                                 kDefaultTheta,
                                 std::numeric_limits<float>::min(),
                                 kLargestRopeBase);
  const std::string epsilon_key = "llama.attention.layer_norm_rms_epsilon";
  fields.required(fields.number(epsilon_key), epsilon_key);
  const double epsilon = number_in(fields, epsilon_key, 0, 0, kLargestEpsilon);
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"attention_bias", file.find("blk.0.attn_q.bias") != nullptr},
                 {"attention_dropout", 0.0}};
  add_token_ids(config, fields);
  config.update({{"head_dim", sizes.head_dim},
                 {"hidden_act", "silu"},
                 {"hidden_size", sizes.hidden},
                 {"initializer_range", 0.02},
                 {"intermediate_size", sizes.intermediate},
                 {"max_position_embeddings", positive(fields, "llama.context_length")},
                 {"mlp_bias", file.find("blk.0.ffn_up.bias") != nullptr},
                 {"model_type", "llama"},
                 {"num_attention_heads", sizes.heads},
                 {"num_hidden_layers", sizes.layers},
                 {"num_key_value_heads", sizes.kv_heads},
                 {"pretraining_tp", 1},
                 {"rms_norm_eps", epsilon},
                 {"rope_scaling", rope_scaling(file, sizes, theta)},
                 {"rope_theta", theta},
                 {"tie_word_embeddings", file.find("output.weight") == nullptr},
                 {"torch_dtype", dtype_name(dtype)},
                 {"use_cache", true},
                 {"vocab_size", sizes.vocabulary}});
  return config;
}

Json generation_config(const GgufFile& file) {
  const GgufFields fields(file);
  Json config = {{"_from_model_config", true}};
  add_token_ids(config, fields);
  // A chat model ends its turn with a token of its own.
  const auto eos = fields.integer("tokenizer.ggml.eos_token_id");
  const auto turn = fields.integer("tokenizer.ggml.eot_token_id");
  if (eos && turn && *eos != *turn) {
    config["eos_token_id"] = {*eos, *turn};
  }
  return config;
}

}  // namespace reprise::io
