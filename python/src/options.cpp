#include "options.h"

#include "errors.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

class ContextScope {
 public:
  explicit ContextScope(const std::shared_ptr<Held>& manager) {
    const py::gil_scoped_acquire gil;
    auto enter = py::reinterpret_borrow<py::object>(manager->get()).attr("__enter__");
    exit_ = Held(manager->get().attr("__exit__"));
    enter();
  }
  ~ContextScope() {
    if (!is_interpreter_alive()) {
      return;
    }
    const py::gil_scoped_acquire gil;
    // An exception in flight is Python's: it is kept over the call, and shown to the manager.
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    const auto none_or = [](PyObject* object) { return object == nullptr ? Py_None : object; };
    PyObject* result = PyObject_CallFunctionObjArgs(
        exit_.get().ptr(), none_or(type), none_or(value), none_or(traceback), nullptr);
    if (result == nullptr) {
      PyErr_WriteUnraisable(exit_.get().ptr());
    }
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  Held exit_;
};

CheckpointOptions make_options(bool use_reentrant,
                               bool preserve_rng_state,
                               bool early_stop,
                               DeterminismCheck determinism_check,
                               std::shared_ptr<Policy> policy,
                               bool allow_lossy,
                               bool offload_inputs,
                               std::string name) {
  return {.use_reentrant = use_reentrant,
          .preserve_rng_state = preserve_rng_state,
          .early_stop = early_stop,
          .determinism_check = determinism_check,
          .policy = std::move(policy),
          .allow_lossy = allow_lossy,
          .offload_inputs = offload_inputs,
          .name = std::move(name)};
}

}  // namespace

ScopeMaker scope_of(py::object context_manager) {
  auto held = std::make_shared<Held>(std::move(context_manager));
  return [held]() -> std::shared_ptr<void> { return std::make_shared<ContextScope>(held); };
}

void add_options(py::module_& module) {
  py::enum_<DeterminismCheck>(module, "DeterminismCheck")
      .value("NONE", DeterminismCheck::None)
      .value("METADATA", DeterminismCheck::Metadata)
      .value("VALUES", DeterminismCheck::Values);
  py::class_<CheckpointOptions>(module, "Options")
      .def(py::init(&make_options),
           py::kw_only(),
           py::arg("use_reentrant") = false,
           py::arg("preserve_rng_state") = true,
           py::arg("early_stop") = true,
           py::arg("determinism_check") = DeterminismCheck::Metadata,
           py::arg("policy") = py::none(),
           py::arg("allow_lossy") = false,
           py::arg("offload_inputs") = false,
           py::arg("name") = "")
      .def_readonly("name", &CheckpointOptions::name);
}

}  // namespace reprise::python
