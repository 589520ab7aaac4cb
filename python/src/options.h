// The options of a region as a Python object.
#pragma once

#include "object.h"

#include <reprise/options.h>

namespace reprise::python {

void add_options(py::module_& module);

/// An object that enters a Python context manager, and leaves it when it is destroyed.
ScopeMaker scope_of(py::object context_manager);

}  // namespace reprise::python
