// Errors of the standard library, of JSON and of LibTorch's allocators in one line: what is wrong,
// where, and what to do.
#pragma once

#include <reprise/export.h>

#include <exception>
#include <string>

namespace reprise {

/// The message of an exception, without a backtrace. Our own errors stay as they are.
REPRISE_API std::string error_text(const std::exception& error);

}  // namespace reprise
