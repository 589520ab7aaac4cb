// Mistral: Llama's block with a sliding window in all layers.
#include "model/families/architecture.h"
#include "model/families/config_reader.h"

namespace reprise {

void read_mistral(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config, /*default_kv_heads=*/8);
  const int64_t window = fields.size_or_none("sliding_window", /*none=*/0, /*if_missing=*/4096);
  read_windows(fields, config, window, /*first_layer=*/0);
}

}  // namespace reprise
