#include "model/families/text_part.h"

#include <array>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

constexpr std::array<const char*, 6> kOtherParts = {"vision_config",
                                                    "audio_config",
                                                    "speech_config",
                                                    "encoder_config",
                                                    "visual",
                                                    "mm_vision_tower"};
constexpr std::array<const char*, 3> kTextParts = {"text_config", "llm_config", "language_config"};

/// The prefix of a mixed model, and what takes its place.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPrefixes = {
    {{"language_model.", ""},
     {"model.language_model.", "model."},
     {"model.text_model.", "model."}}};

struct Alias {
  const char* text_type;
  const char* family;
};

/// Types of text parts that compute what a family does. Those of Qwen-VL rotate by three positions,
/// which are the same one for text.
constexpr std::array<Alias, 6> kAliases = {{{"qwen2_vl", "qwen2"},
                                            {"qwen2_vl_text", "qwen2"},
                                            {"qwen2_5_vl", "qwen2"},
                                            {"qwen2_5_vl_text", "qwen2"},
                                            {"qwen3_vl", "qwen3"},
                                            {"qwen3_vl_text", "qwen3"}}};

/// Fields beside the text part that hold for all parts.
constexpr std::array<const char*, 6> kShared = {
    "tie_word_embeddings", "torch_dtype", "dtype", "bos_token_id", "eos_token_id", "pad_token_id"};

/// What transformers' classes assume where a text_config lacks a field: LLaVA's and Gemma 3's files
/// rely on it.
void add_defaults(Json& config) {
  Json defaults;
  if (config["model_type"] == "llama") {
    defaults = {{"hidden_size", 4096},
                {"intermediate_size", 11008},
                {"num_hidden_layers", 32},
                {"num_attention_heads", 32},
                {"vocab_size", 32000}};
  } else if (config["model_type"] == "mistral") {
    defaults = {{"hidden_size", 4096},
                {"intermediate_size", 14336},
                {"num_hidden_layers", 32},
                {"num_attention_heads", 32},
                {"num_key_value_heads", 8},
                {"vocab_size", 32000}};
  }
  if (config["model_type"] == "gemma3_text") {
    defaults = {{"hidden_size", 2304},
                {"intermediate_size", 9216},
                {"num_hidden_layers", 26},
                {"num_attention_heads", 8},
                {"num_key_value_heads", 4},
                {"head_dim", 256},
                {"max_position_embeddings", 131072},
                {"vocab_size", 262208}};
  }
  for (const auto& [field, value] : defaults.items()) {
    if (!config.contains(field)) {
      config[field] = value;
    }
  }
}

void drop_three_positions(Json& config) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(name) || !config[name].is_object()) {
      continue;
    }
    Json& rope = config[name];
    for (const char* field : {"mrope_section", "mrope_interleaved"}) {
      rope.erase(field);
    }
    for (const char* kind : {"type", "rope_type"}) {
      if (rope.contains(kind) && rope[kind] == "mrope") {
        rope[kind] = "default";
      }
    }
  }
}

void name_family(Json& config) {
  for (const Alias& alias : kAliases) {
    if (config["model_type"] == alias.text_type) {
      config["model_type"] = alias.family;
      drop_three_positions(config);
      return;
    }
  }
}

/// Fields of images in a config.json without a text_config of its own.
bool is_about_images(std::string_view field) {
  return field.starts_with("vision_") || field.starts_with("image_") || field.starts_with("video_");
}

}  // namespace

std::optional<TextPart> text_part(const Json& json) {
  TextPart part;
  for (const char* name : kOtherParts) {
    if (const auto found = json.find(name); found != json.end() && !found->is_null()) {
      part.others.emplace_back(name);
    }
  }
  if (part.others.empty()) {
    return std::nullopt;
  }
  for (const char* name : kTextParts) {
    if (const auto found = json.find(name); found != json.end() && found->is_object()) {
      part.config = *found;
      for (const char* field : kShared) {
        if (json.contains(field) && !part.config.contains(field)) {
          part.config[field] = json[field];
        }
      }
      break;
    }
  }
  if (part.config.is_null()) {
    for (const auto& [field, value] : json.items()) {
      if (!is_about_images(field)) {
        part.config[field] = value;
      }
    }
    for (const std::string& other : part.others) {
      part.config.erase(other);
    }
  }
  part.config.erase("architectures");
  if (!part.config.contains("model_type")) {
    part.config["model_type"] = "";
  }
  name_family(part.config);
  add_defaults(part.config);
  return part;
}

std::string joined_parts(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

std::optional<std::string> without_text_prefix(const std::string& name) {
  for (const auto& [prefix, replacement] : kPrefixes) {
    if (name.starts_with(prefix)) {
      return std::string(replacement) + name.substr(prefix.size());
    }
  }
  return std::nullopt;
}

}  // namespace reprise
