// The options of a region as a Python object.
#pragma once

#include "object.h"

#include <reprise/options.h>

namespace reprise::python {

void add_options(py::module_& module);

}  // namespace reprise::python
