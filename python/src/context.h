// The context managers of a context_fn: one around forward, one around every recompute.
#pragma once

#include "object.h"

#include <reprise/options.h>

#include <torch/csrc/Exceptions.h>

#include <memory>

namespace reprise::python {

/// A context manager around runs of a region. The engine enters and leaves it with a scope of its
/// own, which ends while an exception unwinds C++: the manager gets that from here.
class Context {
 public:
  /// Whether check_exit() follows each run. After others, what __exit__ raises is printed.
  enum class Exit : uint8_t { Checked, Unraisable };

  /// Needs the GIL, as everything here but the destructor.
  Context(py::object manager, Exit kind) : manager_(std::move(manager)), kind_(kind) {}

  void enter();
  void exit();

  /// The exception that is about to end the run.
  void fail(const python_error& error);
  /// After a run: throws what __exit__ raised, and RuntimeError if it has suppressed an exception,
  /// since there is nothing to return then.
  void check_exit();

 private:
  const Held manager_;
  const Exit kind_;
  Held exit_;     // the bound method, as `with` takes it before entering
  Held failure_;  // of the run
  Held raised_;   // by __exit__
  bool has_suppressed_ = false;
};

/// Makes an object that is inside the manager as long as it lives.
ScopeMaker scope_of(std::shared_ptr<Context> context);

}  // namespace reprise::python
