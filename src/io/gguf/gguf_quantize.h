// Encodes float32 values in the types that are written. No tensors here: floats in, bytes out.
#pragma once

#include "io/gguf/gguf_file.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace reprise::io {

/// "f32", "f16", "bf16" or "q8_0", as llama.cpp's converter names them.
REPRISE_API std::optional<GgufType> gguf_output_type(std::string_view name);

/// The bits of the gguf package: `values` are whole blocks, and `bytes` has room for exactly them.
/// False if a value is not finite, or becomes infinite, in a type whose scale or range it exceeds
/// (F16, Q8_0); F32 and BF16 take every value.
REPRISE_API bool quantize(GgufType type, std::span<const float> values, std::span<std::byte> bytes);

}  // namespace reprise::io
