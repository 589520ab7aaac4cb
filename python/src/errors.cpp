#include "errors.h"

#include "wording.h"

#include <reprise/options.h>

#include <c10/util/Exception.h>

#include <string>

namespace reprise::python {
namespace {

// Owned until the process ends, as exceptions may be thrown until then.
PyObject* checkpoint_error = nullptr;
PyObject* stop_error = nullptr;

void set(PyObject* type, const c10::Error& error) {
  PyErr_SetString(type, worded(error.what_without_backtrace()).c_str());
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) {
      std::rethrow_exception(pointer);
    }
  } catch (python_error& error) {
    error.restore();
  } catch (const CheckpointError& error) {
    set(checkpoint_error, error);
  } catch (const c10::IndexError& error) {
    set(PyExc_IndexError, error);
  } catch (const c10::ValueError& error) {
    set(PyExc_ValueError, error);
  } catch (const c10::TypeError& error) {
    set(PyExc_TypeError, error);
  } catch (const c10::NotImplementedError& error) {
    set(PyExc_NotImplementedError, error);
  } catch (const c10::OutOfMemoryError& error) {
    const auto torch = py::module_::import("torch");
    set(torch.attr("OutOfMemoryError").ptr(), error);
  } catch (const c10::Error& error) {
    set(PyExc_RuntimeError, error);
  }
}

}  // namespace

void add_errors(py::module_& module) {
  // Callers that catch PyTorch's error catch ours.
  const auto torch_error = py::module_::import("torch.utils.checkpoint").attr("CheckpointError");
  checkpoint_error =
      PyErr_NewExceptionWithDoc("reprise.CheckpointError",
                                "A region cannot be recomputed as it ran, or is misused.",
                                torch_error.ptr(),
                                nullptr);
  stop_error = PyErr_NewExceptionWithDoc(
      "reprise.StopRecompute",
      "Ends a recompute that has all it needs. Let it pass, or set early_stop=False. An Exception, "
      "so that module hooks with always_call run, as in torch.utils.checkpoint.",
      PyExc_Exception,
      nullptr);
  if (checkpoint_error == nullptr || stop_error == nullptr) {
    throw py::error_already_set();
  }
  module.add_object("CheckpointError", checkpoint_error);
  module.add_object("StopRecompute", stop_error);
  module.def("worded", &worded);
  py::register_exception_translator(&translate);
}

py::handle checkpoint_error_type() {
  return checkpoint_error;
}

py::handle stop_type() {
  return stop_error;
}

python_error taken_error() {
  python_error error;
  error.persist();
  return error;
}

python_error taken_error_of_body() {
  auto error = taken_error();
  if (error.type != PyExc_RuntimeError || !is_ours(error.what())) {
    return error;
  }
  auto made = made_error(checkpoint_error, worded(error.what()));
  Py_XINCREF(error.traceback);
  made.traceback = error.traceback;
  return made;
}

python_error made_error(py::handle type, const std::string& message) {
  const py::object made = type(message);  // an object already, for those who look at it
  PyErr_SetObject(type.ptr(), made.ptr());
  return taken_error();
}

}  // namespace reprise::python
