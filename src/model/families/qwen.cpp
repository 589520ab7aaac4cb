// Qwen2 and Qwen2.5 (biases on q, k, v) and Qwen3 (norms on q and k, no biases).
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

namespace {

// `head_dim`: the default of transformers; 0: hidden / heads.
void read_qwen_shape(ConfigReader& fields, ModelConfig& config, int64_t head_dim) {
  read_llama_shape(fields, config, {.kv_heads = 32, .head_dim = head_dim});
  // The window has an effect only with use_sliding_window; even then the first max_window_layers
  // layers attend to everything.
  const int64_t window = fields.size_or_none("sliding_window", /*none=*/0, /*if_missing=*/4096);
  const bool uses_window = fields.flag_or("use_sliding_window", false);
  const int64_t full_layers = fields.count_or("max_window_layers", 28);
  read_windows(fields, config, uses_window ? window : 0, full_layers);
}

}  // namespace

void read_qwen2(ConfigReader& fields, ModelConfig& config) {
  read_qwen_shape(fields, config, /*head_dim=*/0);
  config.qkv_bias = true;
  fields.require("use_mrope", false);
}

void read_qwen3(ConfigReader& fields, ModelConfig& config) {
  read_qwen_shape(fields, config, /*head_dim=*/128);
  config.qk_norm = QkNorm::Head;
  config.qkv_bias = config.attention_output_bias = fields.flag_or("attention_bias", false);
}

}  // namespace reprise
