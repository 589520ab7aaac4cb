// GPT-NeoX and Pythia: attention and MLP in parallel, rotary embedding over a quarter of each head.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture gpt_neox_architecture() {
  Architecture architecture;
  architecture.class_prefix = "GPTNeoX";
  architecture.pad_embedding_is_fixed = false;
  architecture.backbone = "gpt_neox";
  architecture.embedding = "gpt_neox.embed_in";
  architecture.blocks = "gpt_neox.layers";
  architecture.final_norm = "gpt_neox.final_layer_norm";
  architecture.lm_head = "embed_out";
  architecture.token_head = "classifier";
  architecture.qkv = "attention.query_key_value";
  architecture.attention_output = "attention.dense";
  architecture.up = "mlp.dense_h_to_4h";
  architecture.down = "mlp.dense_4h_to_h";
  architecture.qkv_layout = QkvLayout::FusedPerGroup;
  architecture.mlp_layout = MlpLayout::Plain;
  architecture.computed_buffers = {
      ".attention.bias", ".attention.masked_bias", ".attention.rotary_emb.inv_freq"};
  return architecture;
}

void read_gpt_neox(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config);
  config.kv_heads = config.heads;  // no grouped-query attention, and no head size of its own
  config.head_dim = config.hidden / config.heads;
  read_rope(fields, config, {.fraction = 0.25});
  read_activation(fields, config, "hidden_act", "gelu");
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_eps", 1e-5);
  config.qkv_bias = config.attention_output_bias = fields.flag_or("attention_bias", true);
  config.mlp_bias = true;
  config.parallel_residual = fields.flag_or("use_parallel_residual", true);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.embedding_dropout = config.residual_dropout = fields.number_or({"hidden_dropout"}, 0.0);
  config.classifier_dropout = fields.number_or({"classifier_dropout"}, 0.1);
  // Of GPT-NeoX-20B's file; transformers reads the names without "prob".
  fields.ignore({"attention_probs_dropout_prob", "hidden_dropout_prob"});
}

}  // namespace reprise
