#include "arguments.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>

namespace reprise::python {
namespace {

// Deeper values are kept as they are. They may contain themselves.
constexpr int kMostDepth = 64;

/// torch.utils._pytree's table of registered classes.
const py::dict& registered_nodes() {
  static const auto* nodes = new py::dict(  // lives as long as the interpreter
      py::module_::import("torch.utils._pytree").attr("SUPPORTED_NODES"));
  return *nodes;
}

bool is_plain_tensor(PyObject* object) {
  return Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(THPVariableClass) ||
         Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(ParameterClass);
}

bool is_named_tuple(py::handle value) {
  return PyTuple_Check(value.ptr()) && !PyTuple_CheckExact(value.ptr()) &&
         py::hasattr(py::type::handle_of(value), "_fields");
}

}  // namespace

py::object wrap(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

ArgumentTree::ArgumentTree(py::handle value, std::vector<at::Tensor>& tensors)
    : ArgumentTree(value, tensors, 0) {}

void ArgumentTree::add_children(const py::handle& iterable,
                                std::vector<at::Tensor>& tensors,
                                int depth) {
  for (const auto& child : iterable) {
    children_.push_back(ArgumentTree(child, tensors, depth + 1));
  }
}

ArgumentTree::ArgumentTree(py::handle value, std::vector<at::Tensor>& tensors, int depth) {
  PyObject* object = value.ptr();
  const size_t first = tensors.size();
  if (THPVariable_Check(object)) {
    kind_ = Kind::Tensor;
    tensors.push_back(THPVariable_Unpack(object));
    if (!is_plain_tensor(object)) {
      object_ = Held(py::reinterpret_borrow<py::object>(py::type::handle_of(value)));
      if (py::hasattr(value, "__dict__")) {
        context_ = Held(py::dict(value.attr("__dict__")));
      }
    }
    return;
  }
  if (depth >= kMostDepth) {
    kind_ = Kind::Constant;
  } else if (PyTuple_CheckExact(object)) {
    kind_ = Kind::Tuple;
    add_children(value, tensors, depth);
  } else if (PyList_CheckExact(object)) {
    kind_ = Kind::List;
    add_children(value, tensors, depth);
  } else if (PyDict_CheckExact(object)) {
    kind_ = Kind::Dict;
    const auto dict = py::reinterpret_borrow<py::dict>(value);
    object_ = Held(py::tuple(dict.attr("keys")()));
    add_children(py::tuple(dict.attr("values")()), tensors, depth);
  } else if (is_named_tuple(value)) {
    kind_ = Kind::NamedTuple;
    object_ = Held(py::reinterpret_borrow<py::object>(py::type::handle_of(value)));
    add_children(value, tensors, depth);
  } else if (registered_nodes().contains(py::type::handle_of(value))) {
    kind_ = Kind::Registered;
    const py::object node = registered_nodes()[py::type::handle_of(value)];
    const py::tuple flat = node.attr("flatten_fn")(value);
    object_ = Held(node.attr("unflatten_fn"));
    context_ = Held(py::object(flat[1]));
    add_children(py::object(flat[0]), tensors, depth);
  }
  if (kind_ == Kind::Constant || tensors.size() == first) {
    kind_ = Kind::Constant;
    children_.clear();
    context_ = Held();
    object_ = Held(py::reinterpret_borrow<py::object>(value));
  }
}

py::object ArgumentTree::make(const std::vector<at::Tensor>& tensors, size_t& next) const {
  const auto made = [&](size_t i) { return children_[i].make(tensors, next); };
  switch (kind_) {
    case Kind::Constant:
      return py::reinterpret_borrow<py::object>(object_.get());
    case Kind::Tensor: {
      auto tensor = wrap(tensors.at(next++));
      if (object_ && !py::type::handle_of(tensor).is(object_.get())) {
        tensor = tensor.attr("as_subclass")(object_.get());
        if (context_) {
          tensor.attr("__dict__").attr("update")(context_.get());
        }
      }
      return tensor;
    }
    case Kind::Tuple: {
      py::tuple tuple(children_.size());
      for (size_t i = 0; i < children_.size(); ++i) {
        tuple[i] = made(i);
      }
      return tuple;
    }
    case Kind::Dict: {
      py::dict dict;
      size_t i = 0;
      for (const auto& key : object_.get()) {
        dict[key] = made(i++);
      }
      return dict;
    }
    case Kind::List:
    case Kind::NamedTuple:
    case Kind::Registered:
      break;
  }
  py::list list(children_.size());
  for (size_t i = 0; i < children_.size(); ++i) {
    list[i] = made(i);
  }
  if (kind_ == Kind::NamedTuple) {
    return object_.get()(*list);
  }
  return kind_ == Kind::List ? py::object(list) : object_.get()(list, context_.get());
}

std::vector<at::Tensor> tensors_in(py::handle value) {
  std::vector<at::Tensor> tensors;
  const ArgumentTree tree(value, tensors);
  return tensors;
}

}  // namespace reprise::python
