// Python objects that C++ holds, and the global interpreter lock (GIL).
#pragma once

#include <torch/csrc/python_headers.h>

#include <pybind11/pybind11.h>

#include <utility>

namespace reprise::python {

namespace py = pybind11;

/// Whether the interpreter can run code: graphs may outlive it.
bool is_interpreter_alive();

/// Owns a Python object and may be destroyed on any thread, with or without the GIL, also after the
/// interpreter has ended.
class Held {
 public:
  Held() = default;
  /// Needs the GIL.
  explicit Held(py::object object) : object_(object.release().ptr()) {}
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();

  py::handle get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace reprise::python
