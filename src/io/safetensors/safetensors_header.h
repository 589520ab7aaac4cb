// The header of a safetensors file, checked against the size of the file. Nothing here touches a
// tensor, so that the parser can be fuzzed by itself.
#pragma once

#include <reprise/io/safetensors.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace reprise::io {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in file order; they tile the data without gaps
  std::map<std::string, std::string> metadata;
};

/// Reads the header of `file`, the bytes of a whole file. Throws c10::Error naming `source`, the
/// tensor or field, what was expected and what was found.
REPRISE_API SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                                       const std::string& source);

}  // namespace reprise::io
