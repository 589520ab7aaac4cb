// Which names belong to which scope of a template.
//
// Note [Scopes]
// The body of a loop, macro, call, filter, with, generation or set block is a scope; an `if` is
// none. A name assigned inside a scope ends with it. jinja2 decides before anything runs to which
// scope a name belongs: a scope that assigns a name no scope around it mentions owns that name from
// its start. Until the assignment the name is then undefined there, also in scopes inside, even if
// the caller passed a variable of this name. If the name is read first, or assigned only under an
// `if`, the caller's variable shows through. Lookup at run time goes outwards frame by frame; the
// owned names are entered as undefined when a frame is made, and that gives the same result.
#pragma once

#include "text/template/ast.h"

namespace reprise::jinja {

/// Fills in the `own` lists and the `uses_...` of macros.
void resolve_scopes(Template& tree);

}  // namespace reprise::jinja
