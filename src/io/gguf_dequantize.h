// Blocks of quantized numbers to float32. No tensor is involved: bytes in, floats out.
#pragma once

#include <reprise/io/gguf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace reprise::detail {

struct GgufBlock {
  uint64_t elements;  ///< of a row, that share their scales
  uint64_t bytes;
};

GgufBlock gguf_block(GgufType type);

/// Nothing for a kind of tensor that is not read.
std::optional<GgufType> gguf_type_from_number(uint32_t number);

/// "Q5_K" for 13, "type 99" for what no version of the format names.
std::string gguf_type_name(uint32_t number);

/// All kinds that are read, for messages.
std::string gguf_types();

/// `bytes` is a whole number of blocks and `values` has room for exactly their elements.
void dequantize(GgufType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace reprise::detail
