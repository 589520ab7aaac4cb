#include "io/safetensors/weight_map.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace reprise::io {
namespace {

void check_shard_name(const std::string& name, const std::string& source) {
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  TORCH_CHECK(plain,
              "[tensors] ",
              source,
              ": weight_map: expected the name of a file in the same folder, found \"",
              name,
              "\"");
}

}  // namespace

WeightMap read_weight_map(const Json& json, const std::string& source) {
  TORCH_CHECK(
      json.is_object(), "[tensors] ", source, ": expected an object, found ", kind_of(json));
  const auto map = json.find("weight_map");
  TORCH_CHECK(map != json.end() && map->is_object(),
              "[tensors] ",
              source,
              ": weight_map: expected an object, found ",
              map == json.end() ? "none" : kind_of(*map));
  WeightMap shards;
  shards.reserve(map->size());
  for (const auto& [name, value] : map->items()) {
    TORCH_CHECK(value.is_string(),
                "[tensors] ",
                source,
                ": weight_map: \"",
                name,
                "\": expected a string, found ",
                kind_of(value));
    check_shard_name(value.get_ref<const std::string&>(), source);
    shards.emplace_back(name, value.get<std::string>());
  }
  return shards;
}

}  // namespace reprise::io
