// What the reader and the writer of safetensors share: constants, dtypes and tensor sizes.
#pragma once

#include <reprise/io/tensor_file.h>

#include <c10/core/ScalarType.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::io {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

inline constexpr size_t kLengthBytes = 8;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's bound
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// std::nullopt if the format or LibTorch has no such dtype.
std::optional<at::ScalarType> dtype_from_safetensors(std::string_view name);

/// "F32"; throws for a dtype that the format does not have.
std::string_view safetensors_dtype(at::ScalarType dtype, const std::string& tensor);

/// The names of all dtypes, for messages.
std::string safetensors_dtypes();

/// Tensors are stored by descending rank of their dtype, then by name.
int safetensors_dtype_rank(at::ScalarType dtype);

/// Bytes of a tensor. Throws if they do not fit 63 bits.
uint64_t tensor_bytes(const TensorInfo& info, const std::string& source);

/// The beginning of messages about a tensor.
std::string at_tensor(const std::string& source, const std::string& name);

/// The text in quotes, shortened if it is very long.
std::string quoted(const std::string& text);

}  // namespace reprise::io
