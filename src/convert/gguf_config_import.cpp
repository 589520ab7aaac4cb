// The keys of a file as a config.json, which is then read as any other, so that its family checks
// it once more.
#include "convert/gguf_config.h"

#include "convert/gguf_rope.h"
#include "io/config_ranges.h"
#include "io/gguf/gguf_fields.h"

#include <reprise/io/dtype.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

namespace reprise::convert {
namespace {

using io::GgufFields;

constexpr double kDefaultTheta = 10'000.0;  // llama.cpp's, when the file says nothing

/// Keys that are read besides the sizes, here or by the tokenizer; without the architecture.
constexpr std::array<std::string_view, 16> kKnownKeys = {
    "attention.key_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "expert_count",
    "expert_used_count",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "use_parallel_residual",
    "vocab_size",
};

/// Keys of variants that would compute something else.
constexpr std::array<std::string_view, 8> kRefusedKeys = {
    "attention.clamp_kqv",
    "attention.scale",
    "attention.sliding_window",
    "embedding_scale",
    "logit_scale",
    "residual_scale",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
};

/// Reads the keys of one architecture.
class ImportedKeys {
 public:
  ImportedKeys(const io::GgufFile& file, const GgufFamily& family)
      : file_(file),
        fields_(file),
        family_(family),
        prefix_(family.architecture + std::string(".")) {}

  std::string key(const std::string& name) const { return prefix_ + name; }
  const std::string& prefix() const { return prefix_; }
  const io::GgufFile& file() const { return file_; }
  const GgufFields& fields() const { return fields_; }
  bool has_tensor(const std::string& name) const { return file_.find(name) != nullptr; }

  std::optional<int64_t> size(const std::string& name) const {
    const auto value = fields_.integer(key(name));
    if (value == 0) {
      fields_.refuse(key(name), "an integer from 1", "0");
    }
    return value;
  }

  int64_t required_size(const std::string& name) const {
    return fields_.required(size(name), key(name));
  }

  /// A number of the range that config.json may have too.
  double number(const std::string& name, double fallback, double least, double most) const {
    const double value = fields_.number(key(name)).value_or(fallback);
    if (!(value >= least && value <= most)) {
      fields_.refuse(key(name), c10::str("a number from ", least, " to ", most), c10::str(value));
    }
    return value;
  }

  double epsilon() const {
    const bool is_rms = std::string_view(family_.epsilon_field).starts_with("rms");
    const std::string name =
        is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    fields_.required(fields_.number(key(name)), key(name));
    return number(name, 0, 0, io::kLargestEpsilon);
  }

  double theta() const {
    return number(
        "rope.freq_base", kDefaultTheta, std::numeric_limits<float>::min(), io::kLargestRopeBase);
  }

 private:
  const io::GgufFile& file_;
  GgufFields fields_;
  const GgufFamily& family_;
  std::string prefix_;
};

const GgufFamily& family_of(const GgufFields& fields) {
  const std::string key = "general.architecture";
  const std::string architecture = fields.required(fields.string(key), key);
  const GgufFamily* const family = gguf_family_of_architecture(architecture);
  if (family == nullptr) {
    fields.refuse(key, "one of " + gguf_architectures(), "\"" + architecture + "\"");
  }
  return *family;
}

void refuse_variants(const ImportedKeys& keys, const GgufFamily& family) {
  const GgufFields& fields = keys.fields();
  for (const std::string_view name : kRefusedKeys) {
    const std::string key = keys.key(std::string(name));
    if (fields.find(key) != nullptr && !is_read(family, name)) {
      fields.refuse(
          key, "no such key", "it: the model computes what cannot be said in config.json");
    }
  }
  const std::string experts = keys.key("expert_count");
  if (const int64_t count = fields.integer(experts).value_or(0); count != 0) {
    fields.refuse(experts, "0 (a mixture of experts is not supported)", std::to_string(count));
  }
}

void warn_of_unknown_keys(const ImportedKeys& keys,
                          const GgufFamily& family,
                          std::vector<std::string>& warnings) {
  for (const auto& [key, value] : keys.file().metadata()) {
    if (!key.starts_with(keys.prefix())) {
      continue;
    }
    const std::string_view name = std::string_view(key).substr(keys.prefix().size());
    if (!is_read(family, name) &&
        std::find(kKnownKeys.begin(), kKnownKeys.end(), name) == kKnownKeys.end()) {
      warnings.push_back(key + " has no place in config.json and is dropped");
    }
  }
}

void add_token_ids(Json& json, const GgufFields& fields) {
  for (const auto& [name, key] : {std::pair("bos_token_id", "tokenizer.ggml.bos_token_id"),
                                  std::pair("eos_token_id", "tokenizer.ggml.eos_token_id"),
                                  std::pair("pad_token_id", "tokenizer.ggml.padding_token_id")}) {
    const auto id = fields.integer(key);
    json[name] = id ? Json(*id) : Json(nullptr);
  }
}

struct Heads {
  int64_t count;
  int64_t dimension;
  int64_t rotated;
};

/// Sizes that must fit each other, checked under the names of the file.
Heads check_heads(const ImportedKeys& keys, const GgufFamily& family) {
  const GgufFields& fields = keys.fields();
  const int64_t heads = keys.required_size("attention.head_count");
  const std::string groups_key = keys.key("attention.head_count_kv");
  const int64_t groups = fields.integer(groups_key).value_or(heads);
  if (groups == 0 || heads % groups != 0) {
    fields.refuse(
        groups_key, "a divisor of the " + std::to_string(heads) + " heads", std::to_string(groups));
  }
  const std::string length = keys.key("attention.key_length");
  const int64_t dimension =
      fields.integer(length).value_or(keys.required_size("embedding_length") / heads);
  if (dimension < 2 || dimension % 2 != 0) {
    fields.refuse(length, "an even number", std::to_string(dimension));
  }
  const auto same = [&](const char* name) {
    const int64_t size = fields.integer(keys.key(name)).value_or(dimension);
    if (size != dimension) {
      fields.refuse(keys.key(name),
                    "the " + std::to_string(dimension) + " dimensions of a head",
                    std::to_string(size));
    }
  };
  same("attention.value_length");
  const int64_t rotated = fields.integer(keys.key("rope.dimension_count")).value_or(dimension);
  const bool may_be_partial =
      is(family, "gpt_neox") || is(family, "glm4") || is(family, "stablelm") || is(family, "phi");
  if (!may_be_partial) {
    same("rope.dimension_count");
  }
  return {heads, dimension, rotated};
}

int64_t vocabulary_of(const io::GgufFile& file) {
  const io::GgufTensor* const embedding = file.find("token_embd.weight");
  TORCH_CHECK(embedding != nullptr && embedding->shape.size() == 2,
              "[gguf] ",
              file.path().string(),
              ": expected a tensor \"token_embd.weight\" of two dimensions, found ",
              embedding == nullptr ? "none" : "another shape");
  return embedding->shape[0];
}

double rotated_fraction(const Heads& heads) {
  return static_cast<double>(heads.rotated) / static_cast<double>(heads.dimension);
}

void add_gemma_fields(Json& config,
                      const ImportedKeys& keys,
                      const GgufFamily& family,
                      const Heads& heads) {
  ModelConfig sizes;
  sizes.family = family.model_type;
  sizes.layers = config["num_hidden_layers"];
  sizes.hidden = config["hidden_size"];
  sizes.heads = heads.count;
  sizes.head_dim = heads.dimension;
  config["query_pre_attn_scalar"] = query_size(sizes);
  if (is(family, "gemma3_text")) {
    config["rope_local_base_freq"] = keys.number("rope.freq_base_swa",
                                                 kDefaultTheta,
                                                 std::numeric_limits<float>::min(),
                                                 io::kLargestRopeBase);
    config["sliding_window_pattern"] = family.window_period;
  }
}

/// What only some families have.
void add_particulars(Json& config,
                     const ImportedKeys& keys,
                     const GgufFamily& family,
                     const Heads& heads) {
  const bool has_biases = keys.has_tensor("blk.0.attn_q.bias");
  const std::string name = family.model_type;
  if (name == "llama" || name == "granite" || name == "smollm3") {
    config.update(
        {{"attention_bias", has_biases}, {"mlp_bias", keys.has_tensor("blk.0.ffn_up.bias")}});
    if (name == "llama") {
      config["pretraining_tp"] = 1;
    }
  } else if (name == "qwen2" || name == "qwen3") {
    config["use_sliding_window"] = false;
    if (name == "qwen3") {
      config["attention_bias"] = has_biases;
    }
  } else if (name == "gpt_neox") {
    const std::string parallel = keys.key("use_parallel_residual");
    config.update({{"attention_bias", keys.has_tensor("blk.0.attn_qkv.bias")},
                   {"rotary_pct", rotated_fraction(heads)},
                   {"use_parallel_residual",
                    keys.fields().required(keys.fields().boolean(parallel), parallel)}});
  } else if (name == "starcoder2") {
    config["use_bias"] = has_biases;
  } else if (name == "stablelm") {
    const std::string parallel = keys.key("use_parallel_residual");
    config.update({{"use_qkv_bias", has_biases},
                   {"partial_rotary_factor", rotated_fraction(heads)},
                   {"use_parallel_residual", keys.fields().boolean(parallel).value_or(false)}});
  } else if (name == "phi") {
    config["partial_rotary_factor"] = rotated_fraction(heads);
  } else if (name == "gemma2" || name == "gemma3_text") {
    add_gemma_fields(config, keys, family, heads);
  } else if (name == "glm4") {
    config.update(
        {{"attention_bias", has_biases}, {"partial_rotary_factor", rotated_fraction(heads)}});
  } else if (name == "olmo2" || name == "cohere2") {
    config["attention_bias"] = has_biases;
    if (name == "cohere2") {
      config["sliding_window_pattern"] = family.window_period;
    }
  }
}

void add_numbers(Json& config, const ImportedKeys& keys, const GgufFamily& family) {
  constexpr double kMost = 1e6;
  for (const GgufNumber& number : family.numbers) {
    const std::string key = keys.key(number.key);
    keys.fields().required(keys.fields().number(key), key);
    config[number.field] = keys.number(number.key, 0, 0, kMost);
  }
  if (family.window_period > 0) {
    config["sliding_window"] = keys.required_size("attention.sliding_window");
  }
}

bool is_tied(const ImportedKeys& keys) {
  return !keys.has_tensor("output.weight");
}

void add_rope(Json& config, const ImportedKeys& keys, const Heads& heads) {
  const double theta = keys.theta();
  config["rope_scaling"] = import_rope(keys.file(), keys.prefix(), heads.rotated, theta);
  config["rope_theta"] = theta;
}

}  // namespace

Json imported_config(const io::GgufFile& file,
                     at::ScalarType dtype,
                     std::vector<std::string>& warnings) {
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
              "[gguf] import: expected a dtype of float32, bfloat16 or float16, found ",
              c10::toString(dtype));
  const GgufFields fields(file);
  const GgufFamily& family = family_of(fields);
  const ImportedKeys keys(file, family);
  refuse_variants(keys, family);
  const Heads heads = check_heads(keys, family);
  warn_of_unknown_keys(keys, family, warnings);
  Json config = {{"architectures", {family.class_name}}};
  add_token_ids(config, fields);
  for (const GgufSize& size : family.sizes) {
    if (const auto value = size.is_required ? keys.required_size(size.key) : keys.size(size.key)) {
      config[size.field] = *value;
    }
  }
  if (has_size(family, &ModelConfig::kv_heads)) {
    config["num_key_value_heads"] =
        fields.integer(keys.key("attention.head_count_kv")).value_or(heads.count);
  }
  if (has_size(family, &ModelConfig::head_dim)) {
    config["head_dim"] = heads.dimension;
  }
  config[family.epsilon_field] = keys.epsilon();
  config[family.activation_field] = family.activation;
  if (!is(family, "gpt2")) {
    config["attention_dropout"] = 0.0;
    add_rope(config, keys, heads);
  }
  add_numbers(config, keys, family);
  config.update({{"initializer_range", 0.02},
                 {"model_type", family.model_type},
                 {"tie_word_embeddings", is_tied(keys)},
                 {"torch_dtype", dtype_name(dtype)},
                 {"use_cache", true},
                 {"vocab_size", vocabulary_of(file)}});
  add_particulars(config, keys, family, heads);
  return Json(nlohmann::json(config));  // sorted, as transformers writes it
}

Json generation_config(const io::GgufFile& file) {
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

}  // namespace reprise::convert
