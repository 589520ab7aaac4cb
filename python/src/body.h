// A Python callable as the body of a region.
#pragma once

#include "arguments.h"
#include "context.h"

#include <reprise/detail/region.h>

#include <string>
#include <vector>

namespace reprise::python {

/// A call: the callable, and its arguments without their tensors. functools.partial is taken apart,
/// so that tensors bound by it are arguments like the others.
struct Call {
  Call(py::object function, py::tuple arguments, py::dict keywords);

  py::object function;
  py::tuple arguments;
  py::dict keywords;

  /// Runs it as it was written. Throws what Python raises.
  py::object run() const;
};

class PyBody final : public detail::RegionBody {
 public:
  /// Appends the tensors among the arguments to `inputs`. `on_error` (or None) is called with the
  /// CheckpointError that a recompute has ended with, and may raise another. `context` (or null)
  /// is around recomputes.
  PyBody(const Call& call,
         py::object on_error,
         std::shared_ptr<Context> context,
         std::vector<at::Tensor>& inputs);

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, bool wants_outputs) override;
  const std::type_info& callable_type() const override { return typeid(PyBody); }

  py::handle on_error() const { return on_error_.get(); }
  std::string description() const override;

 private:
  const Held function_;
  ArgumentTree arguments_;
  ArgumentTree keywords_;
  const Held on_error_;
  const std::shared_ptr<Context> context_;
  const Held device_;  // of forward; null: none was set
};

/// What the callable is called in messages.
std::string describe(py::handle function);

}  // namespace reprise::python
