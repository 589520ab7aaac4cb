// GLM and GLM-4 as transformers has them: gate and up in one layer, rotary embedding of
// neighbouring pairs over half of each head; GLM-4-0414 with norms after both branches, too.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

namespace {

Architecture named(const char* class_prefix) {
  auto architecture = llama_architecture(class_prefix);
  architecture.up = "mlp.gate_up_proj";
  architecture.mlp_layout = MlpLayout::GatedFused;
  return architecture;
}

}  // namespace

Architecture glm_architecture() {
  return named("Glm");
}

Architecture glm4_architecture() {
  auto architecture = named("Glm4");
  architecture.attention_output_norm = "post_self_attn_layernorm";
  architecture.mlp_output_norm = "post_mlp_layernorm";
  return architecture;
}

void read_glm(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields,
                   config,
                   {.kv_heads = 2, .head_dim = 128, .rope_fraction = 0.5, .epsilon = 1.5625e-07});
  config.rope.pairing = RopeConfig::Pairing::Neighbours;
  config.qkv_bias = fields.flag_or("attention_bias", true);  // the output projection has none
}

}  // namespace reprise
