// Gemma, Gemma 2 and Gemma 3 (text): embeddings scaled by the root of the width, norms that
// multiply by weight + 1, a gated MLP with GELU; from Gemma 2 on a norm before and after each
// branch and windows in some layers.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

#include <cmath>

namespace reprise {

namespace {

// Gemma's files say "gelu" and mean its approximation by tanh, as transformers knows.
void read_gemma_activation(ConfigReader& fields, ModelConfig& config, const char* name) {
  read_activation(fields, config, name, "gelu_pytorch_tanh");
  if (config.activation == Activation::Gelu) {
    config.activation = Activation::GeluTanh;
  }
}

void read_gemma_shape(ConfigReader& fields, ModelConfig& config, int64_t kv_heads) {
  read_usual_sizes(fields, config, {.kv_heads = kv_heads, .head_dim = 256, .tied_head = true});
  config.norm_adds_one = true;
  config.norm_epsilon = read_epsilon(fields, "rms_norm_eps", 1e-6);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.rounds_embedding_scale = true;
  config.attention_dropout = fields.number_or({"attention_dropout"}, 0.0);
  config.qkv_bias = config.attention_output_bias = fields.flag_or("attention_bias", false);
  if (fields.flag_or("use_bidirectional_attention", false)) {
    fields.refuse("use_bidirectional_attention", "false: only causal attention is supported", true);
  }
  fields.ignore({"cache_implementation"});
}

// Scores are scaled as for heads of another size than they have.
void read_query_scale(ConfigReader& fields, ModelConfig& config) {
  const double size = read_factor(fields, "query_pre_attn_scalar", 256);
  config.attention_scales.assign(static_cast<size_t>(config.layers), 1 / std::sqrt(size));
}

Architecture with_four_norms(const char* class_prefix) {
  auto architecture = llama_architecture(class_prefix);
  architecture.attention_output_norm = "post_attention_layernorm";
  architecture.mlp_norm = "pre_feedforward_layernorm";
  architecture.mlp_output_norm = "post_feedforward_layernorm";
  return architecture;
}

}  // namespace

Architecture gemma2_architecture() {
  return with_four_norms("Gemma2");
}

Architecture gemma3_architecture() {
  auto architecture = with_four_norms("Gemma3");
  architecture.sequence_class = "TextForSequenceClassification";
  return architecture;
}

void read_gemma(ConfigReader& fields, ModelConfig& config) {
  read_gemma_shape(fields, config, /*kv_heads=*/16);
  read_rope(fields, config);
  read_gemma_activation(fields, config, "hidden_act");
  const std::string meant = fields.text_or({"hidden_activation"}, "gelu_pytorch_tanh");
  if (meant != "gelu_pytorch_tanh") {
    fields.refuse("hidden_activation", "gelu_pytorch_tanh", meant);
  }
}

void read_gemma2(ConfigReader& fields, ModelConfig& config) {
  read_gemma_shape(fields, config, /*kv_heads=*/4);
  read_rope(fields, config);
  read_gemma_activation(fields, config, "hidden_activation");
  read_query_scale(fields, config);
  const auto sliding = read_sliding_layers(fields, config, all_but_every(2));
  set_windows(fields, config, sliding, fields.size_or_none("sliding_window", 0, 4096));
  config.attention_softcap = read_softcap(fields, "attn_logit_softcapping", 50.0);
  config.logit_shape.softcap = read_softcap(fields, "final_logit_softcapping", 30.0);
  // Remnants: "hidden_activation" and "sliding_window" count.
  fields.ignore({"hidden_act", "sliding_window_size"});
}

void read_gemma3(ConfigReader& fields, ModelConfig& config) {
  read_gemma_shape(fields, config, /*kv_heads=*/4);
  read_gemma_activation(fields, config, "hidden_activation");
  read_query_scale(fields, config);
  config.qk_norm = QkNorm::Head;
  const int64_t period = fields.size_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  const auto sliding = read_sliding_layers(fields, config, all_but_every(period));
  set_windows(fields, config, sliding, fields.size_or_none("sliding_window", 0, 4096));
  read_layered_rope(
      fields,
      config,
      sliding,
      {.theta = 1e6, .sliding_theta = 1e4, .sliding_theta_field = "rope_local_base_freq"});
  // Its attention does not apply it, whatever it says.
  fields.require("attn_logit_softcapping", nullptr);
  config.logit_shape.softcap = read_softcap(fields, "final_logit_softcapping", 0);
}

}  // namespace reprise
