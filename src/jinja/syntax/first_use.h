// How a name is first used in a block. A macro has the variables caller, kwargs and varargs only if
// its body reads them.
#pragma once

#include "jinja/syntax/ast.h"

#include <string_view>

namespace reprise::jinja {

/// In source order, including all inner scopes.
bool reads_before_assigning(const Block& body, std::string_view name);

}  // namespace reprise::jinja
