// The tensors among an operator's arguments and results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace reprise::planning {

/// Calls `visit` for each tensor in `value`: itself, or the elements of a list. Tensors may be
/// undefined.
template <class Visit>
void for_each_tensor_of(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      visit(tensor.value_or(at::Tensor()));
    }
  }
}

inline bool has_bytes(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage();
}

}  // namespace reprise::planning
