// HMAC-SHA256 (RFC 2104, FIPS 180-4), by which processes prove that they know a secret without
// sending it.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::dist {

inline constexpr size_t kDigestBytes = 32;

/// 32 bytes each.
REPRISE_API std::string sha256(std::string_view bytes);
REPRISE_API std::string hmac_sha256(std::string_view key, std::string_view message);

/// Takes as long for equal texts as for different ones, so that time tells nothing about a proof.
REPRISE_API bool is_equal_secretly(std::string_view a, std::string_view b);

/// Bytes from the system's random generator, for nonces and secrets.
REPRISE_API std::string random_bytes(size_t count);

}  // namespace reprise::dist
