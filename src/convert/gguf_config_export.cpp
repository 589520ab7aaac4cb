// A model's numbers as the keys of a file. What llama.cpp computes otherwise is refused by name, or
// a warning where only longer rows or the last digits differ.
#include "convert/gguf_config.h"
#include "convert/gguf_rope.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace reprise::convert {
namespace {

[[noreturn]] void refuse_value(const ModelConfig& config, const std::string& what) {
  TORCH_CHECK(false, "[gguf] ", config.family, ": ", what, ", which llama.cpp does not have");
}

void check_scores(const ModelConfig& config, const GgufFamily& family) {
  const bool is_said = is_read(family, "attention.scale");
  const double usual = 1.0 / std::sqrt(query_size(config));
  const double expected = is_said ? config.attention_scales.front() : usual;
  for (const double found : config.attention_scales) {
    if (std::abs(found - expected) > 1e-9 * expected) {
      refuse_value(config, c10::str("scores multiplied by ", found, " instead of ", expected));
    }
  }
}

void check_windows(const ModelConfig& config,
                   const GgufFamily& family,
                   std::vector<std::string>& warnings) {
  const auto window = *std::max_element(config.windows.begin(), config.windows.end());
  if (family.window_period == 0 && window > 0) {
    warnings.push_back(c10::str("GGUF has no window for ",
                                config.family,
                                ": llama.cpp attends to everything, which differs beyond ",
                                window,
                                " tokens"));
  }
  for (int64_t layer = 0; family.window_period > 0 && layer < config.layers; ++layer) {
    if (config.windows.at(static_cast<size_t>(layer)) != (slides(family, layer) ? window : 0)) {
      refuse_value(config,
                   c10::str("windows in other layers than all but every ", family.window_period));
    }
  }
}

/// Layers without a rotary embedding.
void check_ropes(const ModelConfig& config, const GgufFamily& family) {
  constexpr int64_t kSmolPeriod = 4;
  for (int64_t layer = 0; layer < config.layers && config.rope.dims > 0; ++layer) {
    const bool rotates = is(family, "cohere2")   ? slides(family, layer)
                         : is(family, "smollm3") ? (layer + 1) % kSmolPeriod != 0
                                                 : true;
    if ((config.rope_of(layer).dims > 0) != rotates) {
      refuse_value(config, "rotary embeddings in other layers");
    }
  }
}

// What llama.cpp computes for this architecture.
void check_exported(const ModelConfig& config,
                    const GgufFamily& family,
                    std::vector<std::string>& warnings) {
  check_scores(config, family);
  check_windows(config, family, warnings);
  check_ropes(config, family);
  if (config.activation == Activation::Gelu) {
    warnings.emplace_back("llama.cpp computes GELU by its tanh approximation");
  }
}

}  // namespace

io::GgufValues exported_config(const ModelConfig& config, std::vector<std::string>& warnings) {
  const GgufFamily* const family = gguf_family(config);
  TORCH_CHECK(family != nullptr,
              "[gguf] export: expected a model of one of these families: ",
              gguf_model_types(),
              "; found ",
              config.family);
  check_exported(config, *family, warnings);
  const std::string architecture = family->architecture;
  io::GgufValues values;
  for (const GgufSize& size : family->sizes) {
    values.emplace_back(architecture + "." + size.key, static_cast<uint32_t>(config.*size.value));
  }
  if (has_size(*family, &ModelConfig::head_dim)) {
    values.emplace_back(architecture + ".attention.value_length",
                        static_cast<uint32_t>(config.head_dim));
  }
  values.emplace_back(
      architecture + (config.norm == NormKind::Rms ? ".attention.layer_norm_rms_epsilon"
                                                   : ".attention.layer_norm_epsilon"),
      static_cast<float>(config.norm_epsilon));
  values.emplace_back(architecture + ".vocab_size", static_cast<uint32_t>(config.vocabulary));
  for (const GgufNumber& number : family->numbers) {
    values.emplace_back(architecture + "." + number.key, static_cast<float>(number.value(config)));
  }
  if (family->window_period > 0) {
    const auto window = *std::max_element(config.windows.begin(), config.windows.end());
    values.emplace_back(architecture + ".attention.sliding_window", static_cast<uint32_t>(window));
  }
  export_rope(config, architecture, values);
  if (is(*family, "gemma3_text")) {
    values.emplace_back(architecture + ".rope.freq_base_swa",
                        static_cast<float>(config.rope_of(0).theta));
  }
  if (is(*family, "gpt_neox") || is(*family, "stablelm")) {
    values.emplace_back(architecture + ".use_parallel_residual", config.parallel_residual);
  }
  return values;
}

}  // namespace reprise::convert
