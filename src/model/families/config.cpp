// Reads config.json of any family.
#include <reprise/model/config.h>

#include "io/config_ranges.h"
#include "model/families/architecture.h"
#include "model/families/config_reader.h"

#include <reprise/io/file_format.h>

#include <c10/util/Exception.h>

#include <array>
#include <cmath>
#include <limits>

namespace reprise {

namespace {

struct FamilyEntry {
  Family family;
  const char* model_type;
  void (*read)(ConfigReader&, ModelConfig&);
  Architecture (*architecture)();
};

// One row per family.
const std::array<FamilyEntry, 7> kFamilies = {{
    {Family::Llama, "llama", read_llama, [] { return llama_architecture("Llama"); }},
    {Family::Mistral, "mistral", read_mistral, [] { return llama_architecture("Mistral"); }},
    {Family::Qwen2, "qwen2", read_qwen2, [] { return llama_architecture("Qwen2"); }},
    {Family::Qwen3, "qwen3", read_qwen3, [] { return llama_architecture("Qwen3"); }},
    {Family::Gpt2, "gpt2", read_gpt2, gpt2_architecture},
    {Family::GptNeox, "gpt_neox", read_gpt_neox, gpt_neox_architecture},
    {Family::ChatGlm, "chatglm", read_chatglm, chatglm_architecture},
}};

const FamilyEntry& entry_of(Family family) {
  return kFamilies.at(static_cast<size_t>(family));
}

const FamilyEntry& entry_named(ConfigReader& fields) {
  const std::string name = fields.text_or({"model_type"}, "");
  std::string supported;
  for (const auto& entry : kFamilies) {
    if (name == entry.model_type) {
      return entry;
    }
    supported += std::string(supported.empty() ? "" : ", ") + entry.model_type;
  }
  fields.refuse("model_type", "one of " + supported, name);
}

std::vector<int64_t> read_eos_ids(ConfigReader& fields) {
  const Json* field = fields.find({"eos_token_id"});
  if (field == nullptr) {
    return {};
  }
  if (!field->is_array()) {
    const auto id = fields.token_id("eos_token_id");
    return id ? std::vector{*id} : std::vector<int64_t>{};
  }
  std::vector<int64_t> ids;
  for (const auto& id : *field) {
    if (!id.is_number_integer() || id < 0) {
      fields.refuse("eos_token_id", "token ids", *field);
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

// transformers does not write num_labels, but id2label with one entry per label.
int64_t read_labels(ConfigReader& fields) {
  fields.ignore({"label2id", "problem_type", "reward_mean", "reward_std"});
  const Json* names = fields.find({"id2label"});
  if (names != nullptr && names->is_object() && !names->empty()) {
    return static_cast<int64_t>(names->size());
  }
  return fields.size_or({"num_labels", "_num_labels"}, 2);
}

void read_common_fields(ConfigReader& fields, ModelConfig& config) {
  config.bos_id = fields.token_id("bos_token_id");
  config.pad_id = fields.token_id("pad_token_id");
  config.eos_ids = read_eos_ids(fields);
  config.labels = read_labels(fields);
  config.initializer_range =
      fields.number_in("initializer_range", 0.02, ConfigReader::Least::Included, 0, 100);
  if (const Json* dtype = fields.find({"dtype", "torch_dtype"})) {
    config.dtype = dtype->is_string() ? dtype_named(*dtype) : std::nullopt;
    if (!config.dtype) {
      fields.refuse("dtype or torch_dtype", "float32, bfloat16 or float16", *dtype);
    }
  }
  if (const Json* names = fields.find({"architectures"});
      names != nullptr && names->is_array() && !names->empty() && names->front().is_string()) {
    config.architecture = names->front();
  }
  fields.require("is_encoder_decoder", false);
  if (const Json* quantization = fields.find({"quantization_config"})) {
    config.quantization = QuantizationConfig::from_json(*quantization, fields.source());
  }
  fields.ignore({"transformers_version",
                 "_name_or_path",
                 "use_cache",
                 "return_dict",
                 "output_attentions",
                 "output_hidden_states",
                 "chunk_size_feed_forward",
                 "is_decoder",
                 "_attn_implementation",
                 "attn_implementation",
                 "torchscript",
                 "auto_map",
                 "tie_encoder_decoder",
                 "max_length",
                 "sep_token_id",
                 "tokenizer_class",
                 "transformers.js_config",
                 "unsloth_version",
                 "unsloth_fixed",
                 "gradient_checkpointing",
                 "head_dim"});
}

// Above the sizes of all models there are: products of them, in bytes, stay within 64 bits.
void check_parameters(const std::string& source, const ModelConfig& config) {
  constexpr double kMostParameters = 1e14;
  const auto real = [](int64_t size) { return static_cast<double>(size); };
  const double width = real(config.hidden);
  const double heads = real(config.heads + config.kv_heads) * real(config.head_dim);
  const double parameters =
      2 * width * (real(config.vocabulary) + real(config.max_positions)) +
      real(config.layers) * width * (2 * heads + 3 * real(config.intermediate));
  TORCH_CHECK(parameters <= kMostParameters,
              "[config] ",
              source,
              ": sizes of about ",
              parameters,
              " parameters; expected at most ",
              kMostParameters);
}

void check(const ConfigReader& fields, const ModelConfig& config) {
  const auto& source = fields.source();
  TORCH_CHECK(config.head_dim > 0,
              "[config] ",
              source,
              ": a width of ",
              config.hidden,
              " cannot be split into ",
              config.heads,
              " attention heads.");
  TORCH_CHECK(config.heads % config.kv_heads == 0,
              "[config] ",
              source,
              ": ",
              config.heads,
              " attention heads cannot share ",
              config.kv_heads,
              " key/value heads: the first must be a multiple of the second.");
  TORCH_CHECK(config.rope.dims % 2 == 0 && config.rope.dims <= config.head_dim,
              "[config] ",
              source,
              ": rotary embedding over ",
              config.rope.dims,
              " dimensions of a head of ",
              config.head_dim,
              ": it needs an even number of them.");
  check_parameters(source, config);
  for (const auto& [name, p] : {std::pair{"attention", config.attention_dropout},
                                {"residual", config.residual_dropout},
                                {"embedding", config.embedding_dropout},
                                {"classifier", config.classifier_dropout}}) {
    TORCH_CHECK(p >= 0 && p < 1,
                "[config] ",
                source,
                ": ",
                name,
                " dropout: expected a probability below 1, found ",
                p);
  }
}

}  // namespace

void read_usual_sizes(ConfigReader& fields, ModelConfig& config, int64_t default_kv_heads) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = fields.size({"hidden_size"});
  config.intermediate = fields.size({"intermediate_size"});
  config.layers = fields.layers({"num_hidden_layers"});
  config.heads = fields.size({"num_attention_heads"});
  config.kv_heads = fields.size_or_none("num_key_value_heads",
                                        /*none=*/config.heads,
                                        default_kv_heads > 0 ? default_kv_heads : config.heads);
  config.head_dim = fields.size_or({"head_dim"}, config.hidden / config.heads);
  config.max_positions = fields.size_or({"max_position_embeddings"}, 2048);
  config.tied_head = fields.flag_or("tie_word_embeddings", false);
  config.classifier_dropout = fields.number_or({"classifier_dropout", "hidden_dropout"}, 0.1);
}

void read_activation(ConfigReader& fields,
                     ModelConfig& config,
                     const char* name,
                     const char* fallback) {
  const std::string activation = fields.text_or({name}, fallback);
  if (activation == "silu" || activation == "swish") {
    config.activation = Activation::Silu;
  } else if (activation == "gelu") {
    config.activation = Activation::Gelu;
  } else if (activation == "gelu_new" || activation == "gelu_pytorch_tanh" ||
             activation == "gelu_fast") {
    config.activation = Activation::GeluTanh;
  } else if (activation == "relu") {
    config.activation = Activation::Relu;
  } else {
    fields.refuse(name, "silu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast or relu", activation);
  }
}

void read_windows(ConfigReader& fields, ModelConfig& config, int64_t window, int64_t first_layer) {
  config.windows.assign(static_cast<size_t>(config.layers), 0);
  const Json* types = fields.find({"layer_types"});
  if (types == nullptr) {
    for (int64_t layer = first_layer; layer < config.layers; ++layer) {
      config.windows[static_cast<size_t>(layer)] = window;
    }
    return;
  }
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) {
    fields.refuse("layer_types", "an array with one entry for each of the layers", *types);
  }
  for (size_t layer = 0; layer < types->size(); ++layer) {
    const auto& type = (*types)[layer];
    if (type == "sliding_attention" && window > 0) {
      config.windows[layer] = window;
    } else if (type != "full_attention") {
      fields.refuse(
          "layer_types", "full_attention, or sliding_attention and a sliding_window", type);
    }
  }
}

double read_epsilon(ConfigReader& fields, const char* name, double fallback) {
  return fields.number_in(name, fallback, ConfigReader::Least::Included, 0, io::kLargestEpsilon);
}

Architecture architecture_of(const ModelConfig& config) {
  return entry_of(config.family).architecture();
}

const char* model_type(Family family) {
  return entry_of(family).model_type;
}

ModelConfig ModelConfig::from_json(const Json& json, const std::string& source) {
  ConfigReader fields(json, source);
  const FamilyEntry& entry = entry_named(fields);
  ModelConfig config;
  config.family = entry.family;
  entry.read(fields, config);
  read_common_fields(fields, config);
  if (config.windows.empty()) {
    config.windows.assign(static_cast<size_t>(config.layers), 0);
  }
  if (config.attention_scales.empty()) {
    config.attention_scales.assign(static_cast<size_t>(config.layers),
                                   1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  }
  check(fields, config);
  config.source = json;
  for (const auto& name : fields.unknown_fields()) {
    config.warnings.push_back(
        c10::str(source, ": the field \"", name, "\" is not known and has no effect."));
  }
  return config;
}

ModelConfig ModelConfig::read(const std::filesystem::path& folder) {
  refuse_foreign_model(folder);
  const auto path = folder / "config.json";
  return from_json(read_json(path), path.string());
}

}  // namespace reprise
