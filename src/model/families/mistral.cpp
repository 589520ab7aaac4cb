// Mistral: Llama's block with a sliding window in all layers; Ministral, where layer_types says in
// which ones; and Ministral 3, whose queries grow with their position.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

void read_mistral(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config, {.kv_heads = 8});
  const int64_t window = fields.size_or_none("sliding_window", /*none=*/0, /*if_missing=*/4096);
  read_windows(fields, config, window, /*first_layer=*/0);
}

void read_ministral(ConfigReader& fields, ModelConfig& config) {
  read_mistral(fields, config);
}

void read_ministral3(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config, {.kv_heads = 8, .head_dim = 128});
  if (fields.find({"rope_parameters", "rope_scaling"}) == nullptr) {
    fields.refuse("rope_parameters", "an object", Json());
  }
  read_rope(fields, config, {.theta = 1e6, .has_query_growth = true});
  read_activation(fields, config, "hidden_act", "silu");
  config.norm_epsilon = read_epsilon(fields, "rms_norm_eps", 1e-5);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  read_windows(fields, config, fields.size_or_none("sliding_window", 0, 0), /*first_layer=*/0);
}

}  // namespace reprise
