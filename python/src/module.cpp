// The extension module reprise._C: what the package reprise needs from C++.
#include "module.h"

#include "errors.h"
#include "options.h"

#include <torch/headeronly/version.h>

#include <pybind11/pybind11.h>

PYBIND11_MODULE(_C, module) {
  using namespace reprise::python;
  module.attr("torch_version") = TORCH_VERSION;
  add_errors(module);
  add_policies(module);
  add_options(module);
  add_regions(module);
  add_planning(module);
  add_memory(module);
  add_hooks(module);
  add_engine(module);  // last: from here on the module is in use
}
