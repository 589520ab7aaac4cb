// Which names belong to which scope of a template.
//
// Note [Scopes]
// The body of a loop, macro, call, filter, with, generation or set block is a scope; an `if` is
// not. A name assigned inside a scope ends with it. jinja2 decides before running to which scope a
// name belongs: a scope that assigns a name which no enclosing scope mentions owns that name from
// its start. Until the assignment the name is undefined there and in inner scopes, even if the
// caller passed a variable of this name. If the name is read first, or assigned only under an `if`,
// the caller's variable is visible. At run time lookup goes outwards frame by frame; owned names
// are set to undefined when a frame is created, which gives the same result.
#pragma once

#include "jinja/syntax/ast.h"

namespace reprise::jinja {

/// Fills in the `own` lists and the `uses_...` of macros.
void resolve_scopes(Template& tree);

}  // namespace reprise::jinja
