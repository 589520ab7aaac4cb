// OPT and Galactica: learned positions that count attended tokens alone and begin at row 2 of their
// table; in OPT-350m, norms after the residual sums and embeddings narrower than the blocks.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture opt_architecture() {
  Architecture architecture;
  architecture.class_prefix = "OPT";
  architecture.embedding = "model.decoder.embed_tokens";
  architecture.positions = "model.decoder.embed_positions";
  architecture.embedding_projection = "model.decoder.project_in";
  architecture.output_projection = "model.decoder.project_out";
  architecture.blocks = "model.decoder.layers";
  architecture.final_norm = "model.decoder.final_layer_norm";
  architecture.attention_norm = "self_attn_layer_norm";
  architecture.mlp_norm = "final_layer_norm";
  architecture.attention_output = "self_attn.out_proj";
  architecture.up = "fc1";
  architecture.down = "fc2";
  architecture.mlp_layout = MlpLayout::Plain;
  return architecture;
}

void adapt_opt(const ModelConfig& config, Architecture& architecture) {
  if (!config.has_final_norm) {
    architecture.final_norm = "";
  }
}

void read_opt(ConfigReader& fields, ModelConfig& config) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = fields.size({"hidden_size"});
  config.embedding_width = fields.size_or({"word_embed_proj_dim"}, config.hidden);
  config.layers = fields.layers({"num_hidden_layers"});
  config.heads = config.kv_heads = fields.size({"num_attention_heads"});
  config.head_dim = config.hidden / config.heads;
  config.intermediate = fields.size({"ffn_dim"});
  config.max_positions = fields.size_or({"max_position_embeddings"}, 2048);
  config.has_learned_positions = config.positions_skip_padding = true;
  config.position_offset = 2;
  read_activation(fields, config, "activation_function", "relu");
  config.norm = NormKind::Layer;
  config.norm_epsilon = 1e-5;
  config.norm_has_weight = config.norm_has_bias =
      fields.flag_or("layer_norm_elementwise_affine", true);
  config.is_post_norm = !fields.flag_or("do_layer_norm_before", true);
  const bool lost_final_norm = fields.flag_or("_remove_final_layer_norm", false);
  config.has_final_norm = !config.is_post_norm && !lost_final_norm;
  const bool has_biases = fields.flag_or("enable_bias", true);
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = has_biases;
  config.tied_head = fields.flag_or("tie_word_embeddings", true);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"dropout"}, 0.1);
  config.initializer_range =
      fields.number_in("init_std", 0.02, ConfigReader::Least::Included, 0, 100);
  fields.require("layerdrop", 0.0);
  fields.ignore({"activation_dropout", "prefix"});  // neither is used by its class
}

}  // namespace reprise
