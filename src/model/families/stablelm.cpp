// StableLM: Llama's block with layer norms, part of each head rotated; StableLM 2 12B has attention
// and MLP in parallel over one norm, and a norm for each head of queries and keys.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture stablelm_architecture() {
  Architecture architecture = llama_architecture("StableLm");
  architecture.query_norm = "self_attn.q_layernorm.norms";
  architecture.key_norm = "self_attn.k_layernorm.norms";
  return architecture;
}

void adapt_stablelm(const ModelConfig& config, Architecture& architecture) {
  if (config.shares_norm) {
    architecture.mlp_norm = "";
  }
}

void read_stablelm(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config, {.kv_heads = 32});
  config.head_dim = config.hidden / config.heads;  // it has no head size of its own
  read_rope(fields, config, {.fraction = 0.25});
  read_activation(fields, config, "hidden_act", "silu");
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_eps", 1e-5);
  config.qkv_bias = fields.flag_or("use_qkv_bias", false);
  config.qk_norm = fields.flag_or("qk_layernorm", false) ? QkNorm::EachHead : QkNorm::None;
  config.shares_norm = config.parallel_residual = fields.flag_or("use_parallel_residual", false);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"hidden_dropout"}, 0.0);
  config.attention_residual_dropout = 0.0;
}

}  // namespace reprise
