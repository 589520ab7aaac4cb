// GPT-2: learned positions, layer norms, weights stored (in, out).
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

#include <cmath>

namespace reprise {

Architecture gpt2_architecture() {
  Architecture architecture;
  architecture.class_prefix = "GPT2";
  architecture.causal_class = "LMHeadModel";
  architecture.scaled_at_first = ".c_proj";
  architecture.pad_embedding_is_fixed = false;
  architecture.backbone = "transformer";
  architecture.embedding = "transformer.wte";
  architecture.positions = "transformer.wpe";
  architecture.blocks = "transformer.h";
  architecture.final_norm = "transformer.ln_f";
  architecture.token_head = "classifier";
  architecture.attention_norm = "ln_1";
  architecture.mlp_norm = "ln_2";
  architecture.qkv = "attn.c_attn";
  architecture.attention_output = "attn.c_proj";
  architecture.up = "mlp.c_fc";
  architecture.down = "mlp.c_proj";
  architecture.qkv_layout = QkvLayout::FusedBlocks;
  architecture.mlp_layout = MlpLayout::Plain;
  architecture.weight_layout = WeightLayout::InOut;
  architecture.computed_buffers = {".attn.bias", ".attn.masked_bias"};
  return architecture;
}

void read_gpt2(ConfigReader& fields, ModelConfig& config) {
  read_gpt2_shape(fields, config, /*dropout=*/0.1);
  config.has_learned_positions = true;
  read_activation(fields, config, "activation_function", "gelu_new");
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = true;
  config.tied_head = fields.flag_or("tie_word_embeddings", true);
  // As in transformers, scores are scaled by the head size unless the file says otherwise.
  const double scale =
      fields.flag_or("scale_attn_weights", true) ? 1.0 / std::sqrt(config.head_dim) : 1.0;
  const bool by_layer = fields.flag_or("scale_attn_by_inverse_layer_idx", false);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    config.attention_scales.push_back(by_layer ? scale / static_cast<double>(layer + 1) : scale);
  }
  fields.require("add_cross_attention", false);
  fields.ignore({"reorder_and_upcast_attn"});  // affects the type of computation only
}

}  // namespace reprise
