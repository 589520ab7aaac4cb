// The arguments of a region: nested Python containers with tensors in them. The engine keeps the
// tensors, in order; the tree keeps the rest, and puts both together again for a recompute.
#pragma once

#include "object.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace reprise::python {

/// One value. Needs the GIL, except for its destruction. Containers without tensors are kept as
/// they are; others are rebuilt, so that a callable that changes them does so once.
class ArgumentTree {
 public:
  ArgumentTree() = default;
  /// Appends the tensors in `value` to `tensors`. Tuples, lists, dictionaries, named tuples and
  /// what is registered with torch.utils._pytree are looked into.
  ArgumentTree(py::handle value, std::vector<at::Tensor>& tensors);

  /// The value with `tensors[next]` and the following ones. Advances `next`.
  py::object make(const std::vector<at::Tensor>& tensors, size_t& next) const;

 private:
  enum class Kind : uint8_t { Constant, Tensor, Tuple, List, Dict, NamedTuple, Registered };

  ArgumentTree(py::handle value, std::vector<at::Tensor>& tensors, int depth);
  void add_children(const py::handle& iterable, std::vector<at::Tensor>& tensors, int depth);

  Kind kind_ = Kind::Constant;
  /// Constant: the value. Tensor: its class, if that is special. Dict: the keys. NamedTuple: the
  /// class. Registered: the function that puts it together.
  Held object_;
  /// Tensor: attributes of a special class. Registered: the context.
  Held context_;
  std::vector<ArgumentTree> children_;
};

/// The tensors in a result.
std::vector<at::Tensor> tensors_in(py::handle value);
/// A tensor as a Python object.
py::object wrap(const at::Tensor& tensor);

}  // namespace reprise::python
