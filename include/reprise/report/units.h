// Bytes, durations and counts in readable form, for progress lines and reports. Values that are not
// finite become "nan", "inf" or "-inf".
#pragma once

#include <reprise/export.h>

#include <string>

namespace reprise {

/// "512 B", "1.50 KiB", "38.2 GiB", "517 MiB": powers of 1024, three digits.
REPRISE_API std::string human_bytes(double bytes);

/// "4.2 ms", "9.4 s", "1m32s", "2h05m", "3d04h": two units at most.
REPRISE_API std::string human_seconds(double seconds);

/// "950", "12.3k", "4.60M", "1.20G": powers of 1000, three digits.
REPRISE_API std::string human_count(double count);

/// At most `digits` significant digits, without trailing zeros: "2.315", "1.5e-05".
REPRISE_API std::string human_number(double value, int digits = 4);

}  // namespace reprise
