// The header of a safetensors file, checked against the size of the file. Nothing here touches a
// tensor, so that the parser can be fuzzed by itself.
#pragma once

#include <reprise/io/tensor_file.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace reprise::io {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in file order; they tile the data without gaps
  std::map<std::string, std::string> metadata;
};

/// The bytes at an offset. They are inside the file.
using ReadBytes = std::function<std::string(uint64_t offset, size_t bytes)>;

/// Reads the header of a file of `file_bytes` bytes. Throws c10::Error naming `source`, the tensor
/// or field, what was expected and what was found.
SafetensorsHeader read_safetensors_header(uint64_t file_bytes,
                                          const ReadBytes& read,
                                          const std::string& source);

/// The same for the bytes of a whole file.
REPRISE_API SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                                       const std::string& source);

}  // namespace reprise::io
