// CRC-32C (Castagnoli), and the masked form that TFRecord files store.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string_view>

namespace reprise::detail {

REPRISE_API uint32_t crc32c(std::string_view bytes);

/// Rotated and shifted: the checksum of bytes that hold checksums would be weak otherwise.
REPRISE_API uint32_t masked_crc32c(std::string_view bytes);

}  // namespace reprise::detail
