#include "model/families/shared_fields.h"

#include "io/config_ranges.h"
#include "model/families/config_reader.h"

#include <c10/util/StringUtil.h>

#include <string>

namespace reprise {

void read_usual_sizes(ConfigReader& fields, ModelConfig& config, const UsualDefaults& defaults) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = fields.size({"hidden_size"});
  config.intermediate = fields.size({"intermediate_size"});
  config.layers = fields.layers({"num_hidden_layers"});
  config.heads = fields.size({"num_attention_heads"});
  config.kv_heads = fields.size_or_none("num_key_value_heads",
                                        /*none=*/config.heads,
                                        defaults.kv_heads > 0 ? defaults.kv_heads : config.heads);
  config.head_dim = fields.size_or(
      {"head_dim"}, defaults.head_dim > 0 ? defaults.head_dim : config.hidden / config.heads);
  config.max_positions = fields.size_or({"max_position_embeddings"}, 2048);
  config.tied_head = fields.flag_or("tie_word_embeddings", defaults.tied_head);
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
  } else if (activation == "relu2") {
    config.activation = Activation::SquaredRelu;
  } else {
    fields.refuse(
        name, "silu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu or relu2", activation);
  }
}

std::vector<bool> read_sliding_layers(ConfigReader& fields,
                                      const ModelConfig& config,
                                      const LayerChoice& usually) {
  std::vector<bool> sliding;
  const Json* types = fields.find({"layer_types"});
  if (types == nullptr) {
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      sliding.push_back(usually(layer));
    }
    return sliding;
  }
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) {
    fields.refuse("layer_types",
                  c10::str("an array with an entry for each of ", config.layers, " layers"),
                  *types);
  }
  for (const Json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      fields.refuse("layer_types", "full_attention or sliding_attention", type);
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

LayerChoice all_but_every(int64_t period) {
  return [period](int64_t layer) { return (layer + 1) % period != 0; };
}

void set_windows(const ConfigReader& fields,
                 ModelConfig& config,
                 const std::vector<bool>& sliding,
                 int64_t window) {
  config.windows.clear();
  for (const bool slides : sliding) {
    if (slides && window == 0) {
      fields.refuse("layer_types",
                    "full_attention, or sliding_attention and a sliding_window",
                    "sliding_attention");
    }
    config.windows.push_back(slides ? window : 0);
  }
}

void read_windows(ConfigReader& fields, ModelConfig& config, int64_t window, int64_t first_layer) {
  const auto usually = [&](int64_t layer) { return window > 0 && layer >= first_layer; };
  set_windows(fields, config, read_sliding_layers(fields, config, usually), window);
}

double read_epsilon(ConfigReader& fields, const char* name, double fallback) {
  return fields.number_in(name, fallback, ConfigReader::Least::Included, 0, io::kLargestEpsilon);
}

double read_factor(ConfigReader& fields, const char* name, double fallback) {
  constexpr double kLargestScale = 1e6;
  return fields.number_in(name, fallback, ConfigReader::Least::Excluded, 0, kLargestScale);
}

double read_softcap(ConfigReader& fields, const char* name, double if_missing) {
  return fields.is_null(name) ? 0 : read_factor(fields, name, if_missing);
}

void read_llama_shape(ConfigReader& fields, ModelConfig& config, const UsualDefaults& defaults) {
  read_usual_sizes(fields, config, defaults);
  read_rope(fields, config, {.fraction = defaults.rope_fraction, .theta = defaults.rope_theta});
  read_activation(fields, config, "hidden_act", "silu");
  config.norm_epsilon = read_epsilon(fields, "rms_norm_eps", defaults.epsilon);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
}

void read_gpt2_shape(ConfigReader& fields, ModelConfig& config, double dropout) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = fields.size({"n_embd", "hidden_size"});
  config.layers = fields.layers({"n_layer", "num_hidden_layers"});
  config.heads = config.kv_heads = fields.size({"n_head", "num_attention_heads"});
  config.max_positions = fields.size({"n_positions", "max_position_embeddings"});
  config.intermediate = fields.size_or({"n_inner"}, 4 * config.hidden);
  config.head_dim = config.hidden / config.heads;
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_epsilon", 1e-5);
  config.embedding_dropout = fields.number_or({"embd_pdrop"}, dropout);
  config.attention_dropout = fields.number_or({"attn_pdrop"}, dropout);
  config.residual_dropout = fields.number_or({"resid_pdrop"}, dropout);
  config.classifier_dropout = fields.number_or({"classifier_dropout", "hidden_dropout"}, 0.1);
  fields.ignore({"n_ctx",
                 "summary_activation",
                 "summary_first_dropout",
                 "summary_proj_to_labels",
                 "summary_type",
                 "summary_use_proj",
                 "task_specific_params"});
}

int64_t read_renamed_size(ConfigReader& fields, const char* old_name, const char* name) {
  const int64_t size = fields.size({old_name, name});
  if (const int64_t usual = fields.size_or({name}, size); usual != size) {
    fields.refuse(name, c10::str(size, ", which is ", old_name), usual);
  }
  return size;
}

void read_biases(ConfigReader& fields, ModelConfig& config) {
  config.qkv_bias = config.attention_output_bias = fields.flag_or("attention_bias", false);
  config.mlp_bias = fields.flag_or("mlp_bias", false);
}

}  // namespace reprise
