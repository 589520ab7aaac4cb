// Nemotron 3, 4 and Minitron: Llama's attention with part of each head rotated, a plain MLP with
// squared ReLU, and layer norms that multiply by weight + 1.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

Architecture nemotron_architecture() {
  Architecture architecture = llama_architecture("Nemotron");
  architecture.mlp_layout = MlpLayout::Plain;
  return architecture;
}

void read_nemotron(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config);
  read_rope(fields, config, {.fraction = 0.5});
  read_activation(fields, config, "hidden_act", "relu2");
  read_biases(fields, config);
  config.norm = NormKind::Layer;
  config.norm_adds_one = true;
  config.norm_epsilon = read_epsilon(fields, "norm_eps", 1e-5);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
}

}  // namespace reprise
