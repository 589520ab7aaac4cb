// Types of weights, as config.json and --dtype name them.
#pragma once

#include <reprise/export.h>

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace reprise {

/// float32, bfloat16 or float16, also with "torch." before it; nothing for another name.
REPRISE_API std::optional<at::ScalarType> dtype_named(const std::string& name);
/// The name of one of these three; of another type, LibTorch's.
REPRISE_API const char* dtype_name(at::ScalarType dtype);

}  // namespace reprise
