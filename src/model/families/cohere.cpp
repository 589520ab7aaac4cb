// Command R (Cohere) and Command R7B (Cohere 2): attention and MLP in parallel behind one layer
// norm without a bias, rotary embedding of neighbouring pairs, scaled logits; Cohere 2 with
// windows, and rotary embedding only in them.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

namespace {

void read_cohere_shape(ConfigReader& fields, ModelConfig& config) {
  read_usual_sizes(fields, config, {.tied_head = true});
  read_activation(fields, config, "hidden_act", "silu");
  read_biases(fields, config);
  config.norm = NormKind::Layer;
  config.norm_has_bias = false;
  config.norm_epsilon = read_epsilon(fields, "layer_norm_eps", 1e-5);
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.parallel_residual = true;
  config.logit_shape.scale = read_factor(fields, "logit_scale", 0.0625);
  fields.require("use_qk_norm", false);
  fields.require("use_parallel_block", true);
  fields.require("use_gated_activation", true);
  // Notes of Cohere's own code; tie_word_embeddings counts.
  fields.ignore({"cache_implementation",
                 "use_embedding_sharing",
                 "use_parallel_embedding",
                 "position_embedding_type",
                 "order_of_interleaved_layers",
                 "layer_switch"});
}

}  // namespace

Architecture cohere_architecture(const std::string& class_prefix) {
  auto architecture = llama_architecture(class_prefix);
  architecture.mlp_norm = "";
  return architecture;
}

void read_cohere(ConfigReader& fields, ModelConfig& config) {
  read_cohere_shape(fields, config);
  read_rope(fields, config, {.theta = 5e5});
  config.rope.pairing = RopeConfig::Pairing::Neighbours;
}

void read_cohere2(ConfigReader& fields, ModelConfig& config) {
  read_cohere_shape(fields, config);
  read_rope(fields, config);
  config.rope.pairing = RopeConfig::Pairing::Neighbours;
  const auto usually = all_but_every(fields.size_or({"sliding_window_pattern"}, 4));
  const auto sliding = read_sliding_layers(fields, config, usually);
  set_windows(fields, config, sliding, fields.size_or_none("sliding_window", 0, 4096));
  for (const bool slides : sliding) {
    config.ropes.push_back(slides ? config.rope : RopeConfig{});
  }
}

}  // namespace reprise
