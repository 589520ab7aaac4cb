// What the system said last.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace reprise::detail {

/// errno as text: to be asked before the next call of the system.
inline std::string last_error() {
  return std::generic_category().message(errno);
}

}  // namespace reprise::detail
