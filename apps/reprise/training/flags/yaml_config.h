// Config files: a YAML map from flags to values.
#pragma once

#include <reprise/io/json.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::app {

struct ConfigEntry {
  std::string key;
  /// Null, a string, an array of strings, or an object. The flag interprets strings: 1e-5 and
  /// "1e-5" are the same. Scalars in an object have types, as in JSON.
  Json value;
  std::string where;  ///< "run.yaml:3: key"
};

/// Throws "file:line: reason" unless the file is one map. Also refused: repeated keys in objects,
/// anchors and aliases, nesting deeper than a list in an object, and files above 1 MiB.
std::vector<ConfigEntry> read_yaml_config(const std::filesystem::path& path);

}  // namespace reprise::app
