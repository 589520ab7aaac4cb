// Phi-1, 1.5 and 2: attention and MLP in parallel over one norm, part of each head rotated, biases
// everywhere, the head's among them.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture phi_architecture() {
  Architecture architecture;
  architecture.class_prefix = "Phi";
  architecture.final_norm = "model.final_layernorm";
  architecture.mlp_norm = "";
  architecture.attention_output = "self_attn.dense";
  architecture.query_norm = "self_attn.q_layernorm";
  architecture.key_norm = "self_attn.k_layernorm";
  architecture.up = "mlp.fc1";
  architecture.down = "mlp.fc2";
  architecture.mlp_layout = MlpLayout::Plain;
  architecture.computed_buffers = {"rotary_emb.inv_freq"};
  return architecture;
}

void read_phi(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config);
  read_rope(fields, config, {.fraction = 0.5});
  read_activation(fields, config, "hidden_act", "gelu_new");
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_eps", 1e-5);
  config.qk_norm = fields.flag_or("qk_layernorm", false) ? QkNorm::Head : QkNorm::None;
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = config.head_bias = true;
  config.parallel_residual = true;
  config.embedding_dropout = fields.number_or({"embd_pdrop"}, 0.0);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"resid_pdrop"}, 0.0);
}

}  // namespace reprise
