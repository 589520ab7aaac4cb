#include "body.h"

#include "errors.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include <utility>

namespace reprise::python {
namespace {

py::handle partial_type() {
  static const auto* type =
      new py::object(py::module_::import("functools").attr("partial"));  // allow: owning-new
  return *type;
}

py::object default_device(const char* function, const auto&... arguments) {
  return py::module_::import("reprise._default_device").attr(function)(arguments...);
}

/// The default device of this thread, if one was set.
Held device_of_forward() {
  if (at::impl::PythonTorchFunctionTLS::stack_len() == 0) {
    return {};
  }
  auto device = default_device("current");
  return device.is_none() ? Held() : Held(std::move(device));
}

/// While it lives, the default device is forward's.
std::shared_ptr<void> enter_device(const Held& device) {
  if (!device && at::impl::PythonTorchFunctionTLS::stack_len() == 0) {
    return nullptr;
  }
  py::object context = default_device("scope", device ? device.get() : py::handle(Py_None));
  return context.is_none()
             ? nullptr
             : scope_of(std::make_shared<Context>(std::move(context), Context::Exit::Unraisable))();
}

}  // namespace

Call::Call(py::object called, py::tuple positional, py::dict named)
    : function(std::move(called)), arguments(std::move(positional)), keywords(std::move(named)) {
  while (py::type::handle_of(function).is(partial_type())) {
    const py::tuple bound = function.attr("args");
    arguments = bound.empty() ? arguments : py::tuple(bound + arguments);
    const py::dict bound_keywords = function.attr("keywords");
    if (!bound_keywords.empty()) {
      const auto given = std::exchange(keywords, py::dict());
      keywords.attr("update")(bound_keywords);
      keywords.attr("update")(given);
    }
    function = py::object(function.attr("func"));
  }
}

py::object Call::run() const {
  PyObject* result =
      PyObject_Call(function.ptr(), arguments.ptr(), keywords.empty() ? nullptr : keywords.ptr());
  if (result == nullptr) {
    throw taken_error_of_body();
  }
  return py::reinterpret_steal<py::object>(result);
}

PyBody::PyBody(const Call& call,
               py::object on_error,
               std::shared_ptr<Context> context,
               std::vector<at::Tensor>& inputs)
    : function_(call.function),
      arguments_(call.arguments, inputs),
      keywords_(call.keywords, inputs),
      on_error_(std::move(on_error)),
      context_(std::move(context)),
      device_(device_of_forward()) {}

std::vector<at::Tensor> PyBody::run(std::vector<at::Tensor> inputs, bool wants_outputs) {
  const py::gil_scoped_acquire gil;
  size_t next = 0;
  py::object arguments = arguments_.make(inputs, next);
  py::object keywords = keywords_.make(inputs, next);
  inputs.clear();  // the callable's own from here on: it may drop them early
  const auto device = enter_device(device_);
  auto* result = PyObject_Call(function_.get().ptr(), arguments.ptr(), keywords.ptr());
  if (result == nullptr) {
    if (PyErr_ExceptionMatches(stop_type().ptr()) != 0) {
      PyErr_Clear();
      throw detail::EarlyStop();
    }
    auto error = taken_error_of_body();
    if (context_) {
      context_->fail(error);
    }
    throw error;
  }
  const auto owned = py::reinterpret_steal<py::object>(result);
  return wants_outputs ? tensors_in(owned) : std::vector<at::Tensor>();
}

std::string PyBody::description() const {
  const py::gil_scoped_acquire gil;
  return describe(function_.get());
}

std::string describe(py::handle function) {
  const py::handle type = py::type::handle_of(function);
  const auto has_name = py::hasattr(function, "__qualname__");
  const auto named = has_name ? function : type;
  auto text = py::str(named.attr("__qualname__")).cast<std::string>();
  if (const py::object owner = py::getattr(function, "__self__", py::none());
      has_name && !owner.is_none() && !PyModule_Check(owner.ptr())) {
    const auto method = py::str(py::getattr(function, "__name__", py::str(""))).cast<std::string>();
    text =
        py::str(py::type::handle_of(owner).attr("__qualname__")).cast<std::string>() + "." + method;
  }
  return text;
}

}  // namespace reprise::python
