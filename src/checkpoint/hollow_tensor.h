// A tensor without its bytes: shape, strides, offset, dtype, device. Bytes that were moved or
// compressed make it whole again.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

namespace reprise::detail {

/// A detached tensor over the same storage.
at::Tensor alias_of(const at::Tensor& tensor, const c10::VariableVersion& version_counter);

/// Whether the tensor is nothing but its storage and what a hollow tensor knows.
bool can_be_hollow(const at::Tensor& tensor);

/// `tensor` without its bytes and with a version counter of its own.
REPRISE_API at::Tensor hollow(const at::Tensor& tensor);

/// A new tensor like the one that `hollow_tensor` was made of, over these bytes.
at::Tensor filled(const at::Tensor& hollow_tensor, c10::Storage bytes);

}  // namespace reprise::detail
