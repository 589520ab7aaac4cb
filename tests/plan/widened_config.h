// A fixture's architecture, large enough that tensors are more than their headers.
#pragma once

#include "support/fixtures.h"

#include <reprise/io/json.h>
#include <reprise/model/config.h>

#include <cstdint>
#include <string>

namespace reprise::testing {

struct WidenedSizes {
  int64_t width = 0, inner = 0, layers = 0, positions = 0, vocabulary = 0;
};

inline ModelConfig widened_config(const std::string& family, const WidenedSizes& sizes) {
  Json json = read_json(fixtures() / "models" / family / "config.json");
  const bool is_gpt2 = family == "gpt2";
  json[is_gpt2 ? "n_embd" : "hidden_size"] = sizes.width;
  json[is_gpt2 ? "n_inner" : "intermediate_size"] = sizes.inner;
  json[is_gpt2 ? "n_layer" : "num_hidden_layers"] = sizes.layers;
  json[is_gpt2 ? "n_positions" : "max_position_embeddings"] = sizes.positions;
  json["vocab_size"] = sizes.vocabulary;
  json.erase("layer_types");  // of as many layers as the fixture has
  return ModelConfig::from_json(json, family);
}

}  // namespace reprise::testing
