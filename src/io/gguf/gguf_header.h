// The metadata and the table of tensors of a GGUF file, checked against the size of the file.
// Nothing here touches a tensor, so that the parser can be fuzzed by itself.
#pragma once

#include "io/gguf/gguf_file.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace reprise::io {

struct GgufHeader {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  ///< inside the file, without overlaps
};

/// Reads the header of `file`, the bytes of a whole file. Throws c10::Error naming `source`, the
/// key or tensor, what was expected and what was found.
REPRISE_API GgufHeader parse_gguf_header(std::span<const std::byte> file,
                                         const std::string& source);

}  // namespace reprise::io
