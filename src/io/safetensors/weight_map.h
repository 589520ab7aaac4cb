// The index of a checkpoint in shards: which tensor is in which file. Nothing here opens a file, so
// that it can be fuzzed by itself.
#pragma once

#include <reprise/io/json.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::io {

/// Tensor and shard, in the order of the file.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

/// "weight_map" of a model.safetensors.index.json. It is not trusted: throws c10::Error naming
/// `source` unless every shard is the name of a file in the same folder, not a path elsewhere.
WeightMap read_weight_map(const Json& json, const std::string& source);

}  // namespace reprise::io
