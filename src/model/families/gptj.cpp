// GPT-J: attention and MLP in parallel over one norm, neighbouring dimensions rotated in pairs, and
// a head with a bias.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture gptj_architecture() {
  Architecture architecture;
  architecture.class_prefix = "GPTJ";
  architecture.pad_embedding_is_fixed = false;
  architecture.backbone = "transformer";
  architecture.embedding = "transformer.wte";
  architecture.blocks = "transformer.h";
  architecture.final_norm = "transformer.ln_f";
  architecture.attention_norm = "ln_1";
  architecture.mlp_norm = "";
  architecture.query = "attn.q_proj";
  architecture.key = "attn.k_proj";
  architecture.value = "attn.v_proj";
  architecture.attention_output = "attn.out_proj";
  architecture.up = "mlp.fc_in";
  architecture.down = "mlp.fc_out";
  architecture.mlp_layout = MlpLayout::Plain;
  architecture.computed_buffers = {".attn.bias", ".attn.masked_bias"};
  return architecture;
}

void read_gptj(ConfigReader& fields, ModelConfig& config) {
  read_gpt2_shape(fields, config, /*dropout=*/0.0);
  config.rope.dims = fields.size_or_none("rotary_dim", /*none=*/0, /*if_missing=*/64);
  if (config.rope.dims == 0) {
    fields.refuse("rotary_dim", "a positive integer", nullptr);
  }
  config.rope.pairing = RopeConfig::Pairing::Neighbours;
  read_activation(fields, config, "activation_function", "gelu_new");
  config.mlp_bias = config.head_bias = true;
  config.parallel_residual = true;
  config.tied_head = fields.flag_or("tie_word_embeddings", false);
  fields.require("rotary", true);
  fields.require("scale_attn_weights", true);
}

}  // namespace reprise
