// Writes GGUF files, version 3, with one piece of one tensor in memory at a time.
#pragma once

#include "io/gguf/gguf_file.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::io {

/// The value types that models need. Sizes and ids are uint32, kinds of tokens int32.
using GgufValue = std::variant<uint32_t,
                               float,
                               bool,
                               std::string,
                               std::vector<std::string>,
                               std::vector<float>,
                               std::vector<int32_t>,
                               std::vector<bool>>;
using GgufValues = std::vector<std::pair<std::string, GgufValue>>;  // in file order

struct GgufOutput {
  std::string name;
  GgufType type = GgufType::F32;
  std::vector<int64_t> shape;        ///< in LibTorch's order
  std::function<at::Tensor()> make;  ///< of this shape, any floating dtype, on the CPU
};

/// The file appears under its name only when it is complete. Throws if a value does not fit the
/// type of its tensor. Returns the bytes of the file.
REPRISE_API uint64_t write_gguf(const std::filesystem::path& path,
                                const GgufValues& values,
                                const std::vector<GgufOutput>& tensors);

}  // namespace reprise::io
