// The parts of the extension module reprise._C.
#pragma once

#include "object.h"

namespace reprise::python {

void add_engine(py::module_& module);    // language.cpp
void add_hooks(py::module_& module);     // hooks.cpp
void add_regions(py::module_& module);   // region.cpp
void add_policies(py::module_& module);  // policy.cpp
void add_planning(py::module_& module);  // planning.cpp
void add_memory(py::module_& module);    // memory.cpp

}  // namespace reprise::python
