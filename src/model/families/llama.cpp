// Llama 1 to 3.x and models of the same architecture (SmolLM, TinyLlama, Yi, …).
#include "model/families/architecture.h"
#include "model/families/config_reader.h"

namespace reprise {

Architecture llama_architecture(const std::string& class_prefix) {
  Architecture architecture;  // the defaults are Llama's
  architecture.class_prefix = class_prefix;
  architecture.computed_buffers = {"rotary_emb.inv_freq"};
  return architecture;
}

void read_llama_shape(ConfigReader& fields, ModelConfig& config, int64_t default_kv_heads) {
  read_usual_sizes(fields, config, default_kv_heads);
  read_rope(fields, config);
  read_activation(fields, config, "hidden_act", "silu");
  config.norm_epsilon = read_epsilon(fields, "rms_norm_eps", 1e-6);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
}

void read_llama(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config);
  config.qkv_bias = config.attention_output_bias = fields.flag_or("attention_bias", false);
  config.mlp_bias = fields.flag_or("mlp_bias", false);
  // pretraining_tp only splits matrix products; the others are notes of converters.
  fields.ignore({"pretraining_tp", "rope_interleaved", "is_llama_config"});
}

}  // namespace reprise
