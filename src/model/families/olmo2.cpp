// OLMo 2 and 3: norms after attention and MLP instead of before, and over all queries and all keys
// of a token; OLMo 3 with windows, in which rotary embedding is not scaled.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

namespace {

void read_olmo_shape(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config);
  read_activation(fields, config, "hidden_act", "silu");
  read_biases(fields, config);
  config.norm_epsilon = read_epsilon(fields, "rms_norm_eps", 1e-5);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.qk_norm = QkNorm::Projection;
}

}  // namespace

Architecture olmo2_architecture(const std::string& class_prefix) {
  auto architecture = llama_architecture(class_prefix);
  architecture.attention_norm = architecture.mlp_norm = "";
  architecture.attention_output_norm = "post_attention_layernorm";
  architecture.mlp_output_norm = "post_feedforward_layernorm";
  return architecture;
}

void read_olmo2(ConfigReader& fields, ModelConfig& config) {
  read_olmo_shape(fields, config);
  read_rope(fields, config);
}

void read_olmo3(ConfigReader& fields, ModelConfig& config) {
  read_olmo_shape(fields, config);
  const auto sliding = read_sliding_layers(fields, config, all_but_every(4));
  set_windows(fields, config, sliding, fields.size_or_none("sliding_window", 0, 4096));
  read_layered_rope(fields, config, sliding, {.theta = 5e5});
}

}  // namespace reprise
