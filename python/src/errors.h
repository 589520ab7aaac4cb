// Exceptions on their way between Python and the engine.
#pragma once

#include "object.h"

#include <reprise/detail/host_language.h>

#include <torch/csrc/Exceptions.h>

#include <exception>

namespace reprise::python {

/// Makes the exception types of the module and registers what C++ exceptions become in Python.
void add_errors(py::module_& module);

/// The types, once add_errors() has run.
py::handle checkpoint_error_type();
py::handle stop_type();

/// The Python error that is set on this thread, as LibTorch carries it through C++. Needs the GIL.
python_error taken_error();
/// The same after a body of a region: errors of the engine, which PyTorch has made RuntimeErrors on
/// their way through an operator, are CheckpointErrors again.
python_error taken_error_of_body();
/// A Python error to throw. Needs the GIL.
python_error made_error(py::handle type, const std::string& message);

/// Ends a recompute: a Python error on the way through Python's frames, an EarlyStop in C++.
struct StopError final : python_error, detail::EarlyStop {
  explicit StopError(python_error error) : python_error(std::move(error)) {}
};

}  // namespace reprise::python
