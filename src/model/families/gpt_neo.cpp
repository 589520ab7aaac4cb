// GPT-Neo: GPT-2 with a window in every other layer, scores that are not scaled, and queries, keys
// and values without biases.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

#include <c10/util/StringUtil.h>

#include <string>
#include <vector>

namespace reprise {

namespace {

constexpr const char* kTypes = "attention_types";

// One [["global", "local"], 12]: some types of layers, and how often they follow each other.
void append_types(const ConfigReader& fields,
                  const Json& repeated,
                  int64_t layers,
                  std::vector<std::string>& types) {
  const bool is_pair = repeated.is_array() && repeated.size() == 2 && repeated[0].is_array() &&
                       !repeated[0].empty() && repeated[1].is_number_integer() &&
                       repeated[1] >= 0 && repeated[1] <= layers;
  if (!is_pair) {
    fields.refuse(kTypes, R"(entries such as [["global", "local"], 12])", repeated);
  }
  for (auto times = repeated[1].get<int64_t>(); times > 0; --times) {
    for (const Json& type : repeated[0]) {
      if (type != "global" && type != "local") {
        fields.refuse(kTypes, "global or local", type);
      }
      types.push_back(type);
    }
  }
}

std::vector<std::string> read_types(ConfigReader& fields, int64_t layers) {
  const Json usual = Json::array({Json::array({Json::array({"global", "local"}), 12})});
  const Json* given = fields.find({kTypes});
  const Json& entries = given == nullptr ? usual : *given;
  std::vector<std::string> types;
  if (!entries.is_array()) {
    fields.refuse(kTypes, "an array", entries);
  }
  for (const Json& entry : entries) {
    append_types(fields, entry, layers, types);
    if (static_cast<int64_t>(types.size()) > layers) {
      break;
    }
  }
  if (static_cast<int64_t>(types.size()) != layers) {
    fields.refuse(kTypes, c10::str("types of ", layers, " layers"), entries);
  }
  return types;
}

}  // namespace

Architecture gpt_neo_architecture() {
  Architecture architecture = gpt2_architecture();
  architecture.class_prefix = "GPTNeo";
  architecture.causal_class = "ForCausalLM";
  architecture.scaled_at_first = "";
  architecture.query = "attn.attention.q_proj";
  architecture.key = "attn.attention.k_proj";
  architecture.value = "attn.attention.v_proj";
  architecture.attention_output = "attn.attention.out_proj";
  architecture.qkv_layout = QkvLayout::Separate;
  architecture.weight_layout = WeightLayout::OutIn;
  architecture.computed_buffers = {".attn.attention.bias", ".attn.attention.masked_bias"};
  return architecture;
}

void read_gpt_neo(ConfigReader& fields, ModelConfig& config) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = fields.size({"hidden_size"});
  config.layers = fields.layers({"num_layers", "num_hidden_layers"});
  config.heads = config.kv_heads = fields.size({"num_heads", "num_attention_heads"});
  config.head_dim = config.hidden / config.heads;
  config.intermediate = fields.size_or({"intermediate_size"}, 4 * config.hidden);
  config.max_positions = fields.size_or({"max_position_embeddings"}, 2048);
  config.has_learned_positions = true;
  const auto types = read_types(fields, config.layers);
  if (const Json* layers = fields.find({"attention_layers"}); layers && *layers != Json(types)) {
    fields.refuse("attention_layers", "what attention_types says", *layers);
  }
  const int64_t window = fields.size_or({"window_size"}, 256);
  for (const auto& type : types) {
    config.windows.push_back(type == "local" ? window : 0);
  }
  config.attention_scales.assign(types.size(), 1.0);
  read_activation(fields, config, "activation_function", "gelu_new");
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_epsilon", 1e-5);
  config.attention_output_bias = config.mlp_bias = true;
  config.tied_head = fields.flag_or("tie_word_embeddings", true);
  config.embedding_dropout = fields.number_or({"embed_dropout"}, 0.0);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"resid_dropout"}, 0.0);
  config.classifier_dropout = fields.number_or({"classifier_dropout"}, 0.1);
  fields.ignore({"summary_activation",
                 "summary_first_dropout",
                 "summary_proj_to_labels",
                 "summary_type",
                 "summary_use_proj",
                 "task_specific_params"});
}

}  // namespace reprise
