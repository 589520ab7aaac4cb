// Turns a template's text into its tree. Filters and tests are looked up here: one that does not
// exist is refused before anything is rendered.
#pragma once

#include "text/template/ast.h"

#include <cstddef>
#include <string_view>

namespace reprise::jinja {

/// Throws Failure with a line. `source` is valid UTF-8.
Template parse(std::string_view source, size_t max_depth);

}  // namespace reprise::jinja
