// A fixture's architecture, large enough that tensors are more than their headers.
#pragma once

#include "support/fixtures.h"

#include <reprise/io/json.h>
#include <reprise/model/config.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace reprise::testing {

struct WidenedSizes {
  int64_t width = 0, inner = 0, layers = 0, positions = 0, vocabulary = 0;
};

inline ModelConfig widened_config(const std::string& family, const WidenedSizes& sizes) {
  Json json = read_json(fixtures() / "models" / family / "config.json");
  // Under the name that the family has for it.
  const auto set = [&](std::initializer_list<const char*> names, int64_t value) {
    for (const char* name : names) {
      if (json.contains(name)) {
        json[name] = value;
      }
    }
  };
  set({"hidden_size", "n_embd", "n_embed"}, sizes.width);
  set({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"}, sizes.inner);
  set({"num_hidden_layers", "n_layer", "num_layers"}, sizes.layers);
  set({"max_position_embeddings", "n_positions"}, sizes.positions);
  set({"vocab_size"}, sizes.vocabulary);
  json.erase("layer_types");  // of as many layers as the fixture has
  for (const char* heads : {"num_attention_heads", "n_head", "num_heads"}) {
    if (json.contains(heads) && sizes.width % json[heads].get<int64_t>() != 0) {
      set({heads, "num_kv_heads"}, 4);
    }
  }
  if (json.contains("attention_types")) {
    const auto type = [](const char* name, int64_t layers) {
      return Json::array({Json::array({name}), layers});
    };
    json["attention_types"] = Json::array({type("global", sizes.layers - 1), type("local", 1)});
    json.erase("attention_layers");
  }
  return ModelConfig::from_json(json, family);
}

}  // namespace reprise::testing
