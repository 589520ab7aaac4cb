// libFuzzer: any JSON as the config.json of a model. What is accepted has sizes that fit together,
// and lists of one entry for each layer.
#include "fuzzed_json.h"

#include <reprise/model/config.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return reprise::testing::fuzz_json(data, size, [](const reprise::Json& json) {
    const auto config = reprise::ModelConfig::from_json(json, "fuzz");
    const bool has_sizes = config.vocabulary > 0 && config.hidden > 0 && config.intermediate > 0 &&
                           config.layers > 0 && config.heads > 0 && config.head_dim > 0 &&
                           config.kv_heads > 0 && config.heads % config.kv_heads == 0 &&
                           config.max_positions > 0 && config.labels > 0;
    const auto layers = static_cast<size_t>(config.layers);
    const bool has_lists =
        (config.ropes.empty() || config.ropes.size() == layers) &&
        (config.windows.empty() || config.windows.size() == layers) &&
        (config.attention_scales.empty() || config.attention_scales.size() == layers);
    const bool has_rope = config.rope.dims >= 0 && config.rope.dims <= config.head_dim &&
                          std::isfinite(config.rope.theta) && std::isfinite(config.rope.factor);
    if (!has_sizes || !has_lists || !has_rope) {
      std::abort();
    }
  });
}
