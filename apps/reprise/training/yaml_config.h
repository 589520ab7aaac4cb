// Config files: a YAML map from names of flags to values.
#pragma once

#include <reprise/io/json.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::app {

struct ConfigEntry {
  std::string key;
  /// Null, a text, an array of texts, or an object. What a text means is the flag's business: 1e-5
  /// and "1e-5" are the same. In an object scalars have types, since it stands for JSON.
  Json value;
  std::string where;  ///< "run.yaml:3: key"
};

/// Throws "file:line: reason" for anything but one map without repeated keys, for anchors and
/// aliases, for what is nested deeper than an object with a list, and above a mebibyte.
std::vector<ConfigEntry> read_yaml_config(const std::filesystem::path& path);

}  // namespace reprise::app
