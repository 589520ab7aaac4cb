// SmolLM3: Llama's block, without rotary embedding in every fourth layer.
#include "model/families/config_reader.h"
#include "model/families/families.h"
#include "model/families/shared_fields.h"

namespace reprise {

namespace {

// no_rope_layers has a 1 for each layer that does rotate.
std::vector<bool> read_rotating_layers(ConfigReader& fields, const ModelConfig& config) {
  std::vector<bool> rotating;
  const auto usually = all_but_every(fields.size_or({"no_rope_layer_interval"}, 4));
  const Json* list = fields.find({"no_rope_layers"});
  const std::string expected = "an array with 0 or 1 for each of the layers";
  if (list != nullptr &&
      (!list->is_array() || static_cast<int64_t>(list->size()) != config.layers)) {
    fields.refuse("no_rope_layers", expected, *list);
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const Json rotates =
        list == nullptr ? Json(usually(layer) ? 1 : 0) : (*list)[static_cast<size_t>(layer)];
    if (rotates != 0 && rotates != 1) {
      fields.refuse("no_rope_layers", expected, *list);
    }
    rotating.push_back(rotates == 1);
  }
  return rotating;
}

}  // namespace

void read_smollm3(ConfigReader& fields, ModelConfig& config) {
  read_llama_shape(fields, config, {.kv_heads = 4, .tied_head = true, .rope_theta = 2e6});
  read_biases(fields, config);
  const auto rotating = read_rotating_layers(fields, config);
  for (const bool rotates : rotating) {
    config.ropes.push_back(rotates ? config.rope : RopeConfig{});
  }
  const int64_t size = fields.size_or_none("sliding_window", /*none=*/0, /*if_missing=*/0);
  const int64_t window = fields.flag_or("use_sliding_window", false) ? size : 0;
  const auto usually = [&](int64_t layer) {
    return window > 0 && !rotating[static_cast<size_t>(layer)];
  };
  set_windows(fields, config, read_sliding_layers(fields, config, usually), window);
  fields.ignore({"max_window_layers", "pretraining_tp", "rope_interleaved"});
}

}  // namespace reprise
