// GGUF: the format of llama.cpp. Read only, versions 2 and 3, little-endian.
//
// A file holds metadata (typed keys and values), a table of tensors, and their bytes, mostly
// quantized in blocks. None of it is trusted: everything is checked before it is used.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace reprise::io {

/// The tensor types that can be read. The values are those of the format.
enum class GgufType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q40 = 2,
  Q41 = 3,
  Q80 = 8,
  Q6K = 14,
  BF16 = 30,
};

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::F32;
  std::vector<int64_t> shape;  ///< in LibTorch's order: the last dimension is contiguous
  uint64_t begin = 0;          ///< first byte, from the beginning of the file
  uint64_t end = 0;            ///< one past the last
};

/// Values keep their type: integers, floats (as double), booleans, strings (any bytes), arrays.
using GgufMetadata = std::map<std::string, Json>;

/// A memory-mapped GGUF file. Cheap to copy: copies share the mapping.
class REPRISE_API GgufFile {
 public:
  /// Throws c10::Error naming the file, the key or tensor, what was expected and what was found. A
  /// tensor of an unsupported type is refused here, with the name of the type.
  explicit GgufFile(const std::filesystem::path& path);

  const GgufMetadata& metadata() const;
  const std::vector<GgufTensor>& tensors() const;  ///< in the order of the file's table
  const GgufTensor* find(const std::string& name) const;
  const std::filesystem::path& path() const;

  /// All elements of the tensor, dequantized as llama.cpp does. Releases its mapped pages.
  void read(const GgufTensor& tensor, std::span<float> values) const;
  /// The same as a tensor of float32.
  at::Tensor load(const GgufTensor& tensor) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace reprise::io
