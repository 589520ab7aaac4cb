// Mistral: Llama's block with a sliding window over all layers.
#include "model/architecture.h"
#include "model/config_reader.h"

namespace reprise {

void read_mistral(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config, /*default_kv_heads=*/8);
  read_rope(fields, config);
  read_activation(fields, config, "hidden_act", "silu");
  config.norm_epsilon = fields.number_or({"rms_norm_eps"}, 1e-6);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  const int64_t window = fields.size_or_none("sliding_window", /*none=*/0, /*if_missing=*/4096);
  read_windows(fields, config, window, /*first_layer=*/0);
}

}  // namespace reprise
