// Access to fields of LibTorch's classes that have no accessor, or only one that is a call.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace reprise::detail {

/// Defines a function that returns a private field: an explicit instantiation may name it.
template <auto kField, class Tag>
struct PrivateField {
  friend const auto& private_field(Tag, const typename Tag::Owner& owner) { return owner.*kField; }
};

struct AutogradMetaField {
  using Owner = c10::TensorImpl;
};
const auto& private_field(AutogradMetaField, const c10::TensorImpl& impl);
template struct PrivateField<&c10::TensorImpl::autograd_meta_, AutogradMetaField>;

/// What autograd knows about a tensor; null: nothing. Not autograd_meta(), a call into another
/// library, which every tensor that an operator reads or makes would need.
inline const torch::autograd::AutogradMeta* autograd_meta_of(const at::Tensor& tensor) {
  return static_cast<const torch::autograd::AutogradMeta*>(
      private_field(AutogradMetaField{}, *tensor.unsafeGetTensorImpl()).get());
}

}  // namespace reprise::detail
