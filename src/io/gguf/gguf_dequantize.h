// Dequantizes blocks to float32. No tensors here: bytes in, floats out.
#pragma once

#include "io/gguf/gguf_file.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace reprise::io {

struct GgufBlock {
  uint64_t elements;  ///< consecutive elements of a row that share scales
  uint64_t bytes;
};

GgufBlock gguf_block(GgufType type);

/// std::nullopt for a type that cannot be read.
std::optional<GgufType> gguf_type_from_number(uint32_t number);

/// "Q5_K" for 13; "type 99" for a number without a name.
std::string gguf_type_name(uint32_t number);

/// The names of all types that can be read, for messages.
std::string gguf_types();

/// `bytes` is a whole number of blocks and `values` has room for exactly their elements.
void dequantize(GgufType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace reprise::io
