// The names of weight dtypes in config.json and in options.
#pragma once

#include <reprise/export.h>

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace reprise {

/// Parses "float32", "bfloat16" or "float16", with or without "torch." in front. std::nullopt for
/// any other name.
REPRISE_API std::optional<at::ScalarType> dtype_named(const std::string& name);
/// The inverse; LibTorch's own name for any other dtype.
REPRISE_API const char* dtype_name(at::ScalarType dtype);

}  // namespace reprise
