// Numbers of bytes in messages and tables.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::detail {

/// "512 KiB": three significant digits.
std::string bytes_text(int64_t bytes);

}  // namespace reprise::detail
