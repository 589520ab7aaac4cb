// Mistral: Llama's block with a sliding window over all layers.
#include "model/architecture.h"
#include "model/config_reader.h"

namespace reprise {

void read_mistral(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config);
  read_rope(fields, config);
  read_activation(fields, config, "hidden_act", "silu");
  config.norm_epsilon = fields.number_or({"rms_norm_eps"}, 1e-6);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  read_windows(fields, config, fields.size_or({"sliding_window"}, 0), /*first_layer=*/0);
}

}  // namespace reprise
