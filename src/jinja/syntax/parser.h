// Parses a template into its syntax tree. Filters and tests are looked up here, so an unknown one
// is refused before rendering.
#pragma once

#include "jinja/syntax/ast.h"

#include <cstddef>
#include <string_view>

namespace reprise::jinja {

/// Throws Failure with a line. `source` is valid UTF-8.
Template parse(std::string_view source, size_t max_depth);

}  // namespace reprise::jinja
