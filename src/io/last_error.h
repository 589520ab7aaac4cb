// The error of the last system call, as text.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace reprise::io {

/// Text of errno. Call it before the next system call.
inline std::string last_error() {
  return std::generic_category().message(errno);
}

}  // namespace reprise::io
