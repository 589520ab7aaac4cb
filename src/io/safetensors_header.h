// The header of a safetensors file: what it says, checked against the bytes that are there.
// Nothing here touches a tensor, so that the parser can be fuzzed by itself.
#pragma once

#include <reprise/io/safetensors.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace reprise::detail {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes, which they tile without a gap
  std::map<std::string, std::string> metadata;
};

/// Reads the header of `file`, the bytes of a whole file. Throws c10::Error naming `source`, the
/// tensor or field, what was expected and what was found.
REPRISE_API SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                                       const std::string& source);

}  // namespace reprise::detail
