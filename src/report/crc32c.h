// CRC-32C (Castagnoli), and the masked form that TFRecord files store.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string_view>

namespace reprise::report {

REPRISE_API uint32_t crc32c(std::string_view bytes);

/// Rotated and offset, because checksums of data that contains checksums would be weak otherwise.
REPRISE_API uint32_t masked_crc32c(std::string_view bytes);

}  // namespace reprise::report
