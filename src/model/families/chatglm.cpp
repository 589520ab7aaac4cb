// ChatGLM2 and ChatGLM3: few key/value groups, rotary embedding of neighbouring pairs over half of
// each head, gate and up in one layer, and module names of their own.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

#include <c10/util/StringUtil.h>

namespace reprise {

Architecture chatglm_architecture() {
  Architecture architecture;
  architecture.class_prefix = "ChatGLM";
  architecture.causal_class = "Model";
  architecture.keeps_class = true;
  architecture.pad_embedding_is_fixed = false;
  architecture.backbone = "transformer";
  architecture.embedding = "transformer.embedding.word_embeddings";
  architecture.blocks = "transformer.encoder.layers";
  architecture.final_norm = "transformer.encoder.final_layernorm";
  architecture.lm_head = "transformer.output_layer";
  architecture.sequence_head = "classifier_head";
  architecture.sequence_head_has_bias = true;
  architecture.qkv = "self_attention.query_key_value";
  architecture.attention_output = "self_attention.dense";
  architecture.up = "mlp.dense_h_to_4h";
  architecture.down = "mlp.dense_4h_to_h";
  architecture.qkv_layout = QkvLayout::FusedBlocks;
  architecture.mlp_layout = MlpLayout::GatedFused;
  architecture.computed_buffers = architecture.carried_buffers = {"rotary_pos_emb.inv_freq"};
  return architecture;
}

namespace {

// ChatGLM2-32k divides positions by rope_ratio, ChatGLM3-32k and GLM-4 multiply theta by it, and
// nothing in their files tells which: whoever knows adds a field of transformers, which their own
// code skips.
void read_rope_and_ratio(ConfigReader& fields, ModelConfig& config) {
  constexpr double kTheta = 10000.0;
  read_rope(fields, config, {.fraction = 0.5, .theta = kTheta});
  RopeConfig& rope = config.rope;
  rope.pairing = RopeConfig::Pairing::Neighbours;
  const double ratio = fields.number_or({"rope_ratio"}, 1.0);
  const bool divides = rope.scaling == RopeConfig::Scaling::Linear && rope.factor == ratio;
  const bool multiplies = rope.scaling == RopeConfig::Scaling::None;
  if (!(divides && rope.theta == kTheta) && !(multiplies && rope.theta == kTheta * ratio)) {
    fields.refuse(
        "rope_ratio",
        c10::str("1, or beside it what it means: \"rope_scaling\": {\"rope_type\": \"linear\", "
                 "\"factor\": ",
                 ratio,
                 "} if positions are divided by it (ChatGLM2-32k), \"rope_theta\": ",
                 kTheta * ratio,
                 " if theta is multiplied (ChatGLM3-32k, GLM-4)"),
        ratio);
  }
}

}  // namespace

void read_chatglm(ConfigReader& fields, ModelConfig& config) {
  config.vocabulary = fields.size({"padded_vocab_size", "vocab_size"});
  config.hidden = fields.size({"hidden_size"});
  config.layers = fields.layers({"num_layers", "num_hidden_layers"});
  config.heads = fields.size({"num_attention_heads"});
  config.head_dim = fields.size({"kv_channels"});
  config.intermediate = fields.size({"ffn_hidden_size"});
  config.max_positions = fields.size({"seq_length"});
  const bool shares_keys = fields.flag_or("multi_query_attention", false);
  const int64_t groups = fields.size_or({"multi_query_group_num"}, 1);
  config.kv_heads = shares_keys ? groups : config.heads;
  config.norm = fields.flag_or("rmsnorm", true) ? NormKind::Rms : NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layernorm_epsilon", 1e-5);
  config.attention_output_bias = config.mlp_bias = fields.flag_or("add_bias_linear", false);
  config.qkv_bias = fields.flag_or("add_qkv_bias", false) || config.mlp_bias;
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"hidden_dropout"}, 0.0);
  config.classifier_dropout = fields.number_or({"classifier_dropout"}, 0.0);
  config.tied_head = fields.flag_or("tie_word_embeddings", false);
  read_rope_and_ratio(fields, config);
  fields.require("apply_residual_connection_post_layernorm", false);
  fields.require("post_layer_norm", true);
  fields.require("original_rope", true);
  fields.require("quantization_bit", 0);
  fields.require("pre_seq_len", nullptr);
  fields.require("prefix_projection", false);
  fields.ignore({"apply_query_key_layer_scaling",  // divides and multiplies by the same factor
                 "attention_softmax_in_fp32",      // always so here
                 "fp32_residual_connection",
                 "bias_dropout_fusion",
                 "interleaved_qkv",
                 "auto_map"});
}

}  // namespace reprise
