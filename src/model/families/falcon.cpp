// Falcon: multi-query attention beside the MLP (7B), grouped keys and values (40B and 180B with a
// norm for each branch, 11B with one for both), and ALiBi with one branch after the other (RW).
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

#include <c10/util/StringUtil.h>

namespace reprise {

namespace {

// One head of keys and values, one for each group of queries, or one for each query.
int64_t read_kv_heads(ConfigReader& fields, const ModelConfig& config, bool is_grouped) {
  const int64_t given = fields.size_or({"num_kv_heads"}, config.heads);
  const bool shares_keys = fields.flag_or("multi_query", true);
  if (is_grouped) {
    return given;
  }
  if (shares_keys) {
    return 1;
  }
  if (given != config.heads) {
    fields.refuse(
        "num_kv_heads",
        c10::str(config.heads, ", since neither multi_query nor new_decoder_architecture"),
        given);
  }
  return given;
}

void read_norms(ConfigReader& fields, ModelConfig& config, bool is_grouped) {
  config.parallel_residual = fields.flag_or("parallel_attn", true);
  const int64_t norms = fields.size_or({"num_ln_in_parallel_attn"}, is_grouped ? 2 : 1);
  if (is_grouped && !config.parallel_residual) {
    fields.refuse("parallel_attn", "true with new_decoder_architecture", false);
  }
  if (norms > (is_grouped ? 2 : 1)) {
    fields.refuse("num_ln_in_parallel_attn",
                  is_grouped ? "1 or 2" : "1 without new_decoder_architecture",
                  norms);
  }
  config.shares_norm = config.parallel_residual && norms == 1;
}

// Attention drops nothing unless it has ALiBi. Branches in parallel are dropped as one sum; where
// they are not, the first has attention's dropout.
void read_dropout(ConfigReader& fields, ModelConfig& config) {
  const double attention = fields.number_or({"attention_dropout"}, 0.0);
  config.residual_dropout = fields.number_or({"hidden_dropout"}, 0.0);
  config.attention_dropout = config.alibi ? attention : 0.0;
  config.drops_sum = config.parallel_residual;
  config.attention_residual_dropout = attention;
  config.classifier_dropout = fields.number_or({"classifier_dropout"}, config.residual_dropout);
}

}  // namespace

Architecture falcon_architecture() {
  auto architecture = bloom_architecture();  // whose names it has taken over
  architecture.class_prefix = "Falcon";
  architecture.embedding_norm = "";
  architecture.computed_buffers = {".rotary_emb.inv_freq"};
  return architecture;
}

void adapt_falcon(const ModelConfig& config, Architecture& architecture) {
  if (config.shares_norm) {
    architecture.mlp_norm = "";
  } else if (config.parallel_residual) {
    architecture.attention_norm = "ln_attn";
    architecture.mlp_norm = "ln_mlp";
  }
}

void read_falcon(ConfigReader& fields, ModelConfig& config) {
  config.vocabulary = fields.size({"vocab_size"});
  config.hidden = read_renamed_size(fields, "n_embed", "hidden_size");
  config.layers = fields.layers({"num_hidden_layers"});
  config.heads = fields.size({"num_attention_heads"});
  config.head_dim = config.hidden / config.heads;
  config.intermediate = fields.size_or({"ffn_hidden_size"}, 4 * config.hidden);
  config.max_positions = fields.size_or({"max_position_embeddings"}, 2048);
  const bool is_grouped = fields.flag_or("new_decoder_architecture", false);
  config.kv_heads = read_kv_heads(fields, config, is_grouped);
  read_norms(fields, config, is_grouped);
  read_rope(fields, config);
  if (fields.flag_or("alibi", false)) {
    config.alibi = Alibi{.in_bfloat16 = true, .is_scaled = true};
    config.rope = {};
  }
  read_activation(fields, config, "activation", "gelu");
  config.norm = NormKind::Layer;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_epsilon", 1e-5);
  const bool has_biases = fields.flag_or("bias", false);
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = has_biases;
  config.tied_head = fields.flag_or("tie_word_embeddings", true);
  read_dropout(fields, config);
  fields.require("apply_residual_connection_post_layernorm", false);
}

}  // namespace reprise
