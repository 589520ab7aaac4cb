// What reader and writer of safetensors agree on: constants, dtypes and the bytes of a tensor.
#pragma once

#include <reprise/io/safetensors.h>

#include <c10/core/ScalarType.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::detail {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

inline constexpr size_t kLengthBytes = 8;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's bound
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Nothing if the format has no such dtype, or has one that LibTorch has not.
std::optional<at::ScalarType> dtype_from_safetensors(std::string_view name);

/// "F32"; throws for a dtype that the format has no name for.
std::string_view safetensors_dtype(at::ScalarType dtype, const std::string& tensor);

/// All of them, for messages.
std::string safetensors_dtypes();

/// The format stores tensors by falling rank, then by name.
int safetensors_dtype_rank(at::ScalarType dtype);

/// Bytes of a tensor; throws when they do not fit 63 bits.
uint64_t tensor_bytes(const TensorInfo& info, const std::string& source);

/// What every message about a tensor begins with.
std::string at_tensor(const std::string& source, const std::string& name);

/// In quotes, and cut when very long.
std::string quoted(const std::string& text);

}  // namespace reprise::detail
