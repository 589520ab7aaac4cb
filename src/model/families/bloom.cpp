// BLOOM: ALiBi, a norm after the embedding, and queries, keys and values packed head by head.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

#include <c10/util/StringUtil.h>

namespace reprise {

Architecture bloom_architecture() {
  Architecture architecture;
  architecture.class_prefix = "Bloom";
  architecture.pad_embedding_is_fixed = false;
  architecture.backbone = "transformer";
  architecture.embedding = "transformer.word_embeddings";
  architecture.embedding_norm = "transformer.word_embeddings_layernorm";
  architecture.blocks = "transformer.h";
  architecture.final_norm = "transformer.ln_f";
  architecture.token_head = "classifier";
  architecture.qkv = "self_attention.query_key_value";
  architecture.attention_output = "self_attention.dense";
  architecture.up = "mlp.dense_h_to_4h";
  architecture.down = "mlp.dense_4h_to_h";
  architecture.qkv_layout = QkvLayout::FusedPerGroup;
  architecture.mlp_layout = MlpLayout::Plain;
  return architecture;
}

void read_bloom(ConfigReader& fields, ModelConfig& config) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = read_renamed_size(fields, "n_embed", "hidden_size");
  config.layers = fields.layers({"n_layer", "num_hidden_layers"});
  config.heads = config.kv_heads = fields.size({"n_head", "num_attention_heads"});
  config.head_dim = config.hidden / config.heads;
  config.intermediate = 4 * config.hidden;
  if (const int64_t inner = fields.size_or({"n_inner"}, config.intermediate);
      inner != config.intermediate) {
    fields.refuse("n_inner", c10::str(config.intermediate, ", four times the width"), inner);
  }
  config.max_positions = fields.size_or({"seq_length"}, 2048);
  config.alibi = Alibi{};
  config.activation = Activation::GeluTanh;
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_epsilon", 1e-5);
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = true;
  config.residual_is_normed = fields.flag_or("apply_residual_connection_post_layernorm", false);
  config.tied_head = fields.flag_or("tie_word_embeddings", true);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"hidden_dropout"}, 0.0);
  config.classifier_dropout = fields.number_or({"classifier_dropout"}, config.residual_dropout);
  fields.ignore({"pretraining_tp",  // how products were split in pre-training
                 "slow_but_exact",
                 "attention_softmax_in_fp32",  // always so here
                 "bias_dropout_fusion",
                 "masked_softmax_fusion",
                 "offset_alibi",
                 "skip_bias_add",
                 "skip_bias_add_qkv",
                 "unk_token_id"});
}

}  // namespace reprise
