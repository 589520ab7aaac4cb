#include "object.h"

namespace reprise::python {

bool is_interpreter_alive() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

Held::~Held() {
  // At the end of the process it is too late to free anything in Python.
  if (object_ != nullptr && is_interpreter_alive()) {
    const py::gil_scoped_acquire gil;
    Py_DECREF(object_);
  }
}

}  // namespace reprise::python
