// StarCoder2: Llama's attention, a plain MLP, layer norms and biases, and perhaps a window.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture starcoder2_architecture() {
  Architecture architecture = llama_architecture("Starcoder2");
  architecture.up = "mlp.c_fc";
  architecture.down = "mlp.c_proj";
  architecture.mlp_layout = MlpLayout::Plain;
  return architecture;
}

void read_starcoder2(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config, {.kv_heads = 2, .tied_head = true});
  read_rope(fields, config);
  read_activation(fields, config, "hidden_act", "gelu_pytorch_tanh");
  read_windows(fields, config, fields.size_or({"sliding_window"}, 0), /*first_layer=*/0);
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "norm_epsilon", 1e-5);
  const bool has_biases = fields.flag_or("use_bias", true);
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = has_biases;
  config.embedding_dropout = fields.number_or({"embedding_dropout"}, 0.0);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"residual_dropout"}, 0.0);
  fields.require("mlp_type", "default");
  fields.require("norm_type", "layer_norm");
  fields.ignore({"layer_norm_epsilon"});  // a remnant; "norm_epsilon" counts
}

}  // namespace reprise
