// Phi-3 and Phi-4: Llama's block with queries, keys and values in one layer, and gate and up in
// one.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture phi3_architecture() {
  auto architecture = llama_architecture("Phi3");
  architecture.qkv = "self_attn.qkv_proj";
  architecture.qkv_layout = QkvLayout::FusedBlocks;
  architecture.up = "mlp.gate_up_proj";
  architecture.mlp_layout = MlpLayout::GatedFused;
  return architecture;
}

void read_phi3(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config, {.epsilon = 1e-5});
  const auto scaling = config.rope.scaling;
  if (scaling != RopeConfig::Scaling::None && scaling != RopeConfig::Scaling::LongRope) {
    fields.refuse("rope_type", "default or longrope for phi3", "another");
  }
  read_windows(fields, config, fields.size_or_none("sliding_window", 0, 0), /*first_layer=*/0);
  config.residual_dropout = fields.number_or({"resid_pdrop"}, 0.0);
  for (const char* bias : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
    fields.require(bias, false);
  }
  // embd_pdrop is a field of transformers' class that its model does not read.
  fields.ignore({"embd_pdrop", "original_max_position_embeddings"});
}

}  // namespace reprise
