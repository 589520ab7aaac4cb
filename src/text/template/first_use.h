// How a name is first used in a block: macros have the variables caller, kwargs and varargs only if
// their body reads them.
#pragma once

#include "text/template/ast.h"

#include <string_view>

namespace reprise::jinja {

/// In the order of the text, into every scope inside.
bool reads_before_assigning(const Block& body, std::string_view name);

}  // namespace reprise::jinja
