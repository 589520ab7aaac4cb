#include "context.h"

#include "errors.h"

#include <utility>

namespace reprise::python {
namespace {

class ContextScope {
 public:
  explicit ContextScope(std::shared_ptr<Context> context) : context_(std::move(context)) {
    const py::gil_scoped_acquire gil;
    context_->enter();
  }
  ~ContextScope() {
    if (is_interpreter_alive()) {
      const py::gil_scoped_acquire gil;
      const py::error_scope kept;  // what is set on this thread stays set
      context_->exit();
    }
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const std::shared_ptr<Context> context_;
};

/// The exception that is set on this thread, as an object with its traceback. Clears it.
py::object taken_exception() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) {
    PyException_SetTraceback(value, traceback);
  }
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return py::reinterpret_steal<py::object>(value);
}

python_error raised(const Held& exception) {
  PyErr_SetObject(py::type::handle_of(exception.get()).ptr(), exception.get().ptr());
  return taken_error();
}

}  // namespace

void Context::enter() {
  has_suppressed_ = false;
  PyObject* exit = PyObject_GetAttrString(manager_.get().ptr(), "__exit__");
  if (exit == nullptr) {
    throw taken_error();
  }
  exit_ = Held(py::reinterpret_steal<py::object>(exit));
  PyObject* entered = PyObject_CallMethod(manager_.get().ptr(), "__enter__", nullptr);
  if (entered == nullptr) {
    throw taken_error();
  }
  Py_DECREF(entered);
}

void Context::exit() {
  py::object type = py::none(), value = py::none(), traceback = py::none();
  if (failure_) {
    value = py::reinterpret_borrow<py::object>(failure_.get());
    type = py::reinterpret_borrow<py::object>(py::type::handle_of(value));
    traceback = py::getattr(value, "__traceback__");
  }
  PyObject* result = PyObject_CallFunctionObjArgs(
      exit_.get().ptr(), type.ptr(), value.ptr(), traceback.ptr(), nullptr);
  const bool has_failed = static_cast<bool>(std::exchange(failure_, Held()));
  if (result != nullptr) {
    has_suppressed_ = has_failed && PyObject_IsTrue(result) == 1;
    Py_DECREF(result);
  } else if (kind_ == Exit::Checked) {
    raised_ = Held(taken_exception());
  } else {
    PyErr_WriteUnraisable(exit_.get().ptr());
  }
}

void Context::fail(const python_error& error) {
  const py::error_scope kept;
  python_error(error).restore();
  failure_ = Held(taken_exception());
}

void Context::check_exit() {
  if (raised_) {
    throw raised(std::exchange(raised_, Held()));
  }
  if (has_suppressed_) {
    throw made_error(PyExc_RuntimeError,
                     "[reprise] the forward context of context_fn suppressed an exception of the "
                     "region, which has nothing to return then. (torch.utils.checkpoint: \"the "
                     "forward context provided by context_fn suppressed an exception raised during "
                     "the checkpointed forward.\")");
  }
}

ScopeMaker scope_of(std::shared_ptr<Context> context) {
  return [context = std::move(context)]() -> std::shared_ptr<void> {
    return std::make_shared<ContextScope>(context);
  };
}

}  // namespace reprise::python
