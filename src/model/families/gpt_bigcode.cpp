// GPT-BigCode (StarCoder, SantaCoder): GPT-2 with one head of keys and values, or one for each
// query, and weights stored (out, in).
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture gpt_bigcode_architecture() {
  Architecture architecture = gpt2_architecture();
  architecture.class_prefix = "GPTBigCode";
  architecture.causal_class = "ForCausalLM";
  architecture.qkv_layout = QkvLayout::FusedPerGroup;
  architecture.weight_layout = WeightLayout::OutIn;
  return architecture;
}

void read_gpt_bigcode(ConfigReader& fields, ModelConfig& config) {
  read_gpt2_shape(fields, config, /*dropout=*/0.1);
  if (fields.flag_or("multi_query", true)) {
    config.kv_heads = 1;
  }
  if (const int64_t given = fields.size_or({"num_key_value_heads"}, config.kv_heads);
      given != config.kv_heads) {
    fields.refuse("num_key_value_heads", "what multi_query says", given);
  }
  config.has_learned_positions = true;
  read_activation(fields, config, "activation_function", "gelu_pytorch_tanh");
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = true;
  config.tied_head = fields.flag_or("tie_word_embeddings", true);
  if (!fields.flag_or("scale_attn_weights", true)) {
    config.attention_scales.assign(static_cast<size_t>(config.layers), 1.0);
  }
  fields.require("add_cross_attention", false);
  fields.ignore({"attention_softmax_in_fp32",  // always so here
                 "scale_attention_softmax_in_fp32",
                 "inference_runner",  // of kernels for inference
                 "max_batch_size",
                 "max_sequence_length",
                 "pad_key_length",
                 "pre_allocate_kv_cache",
                 "validate_runner_input"});
}

}  // namespace reprise
