// Placeholder tensors: shape, strides, offset, dtype and device of a tensor, without its storage.
// Once the bytes are back (fetched or decompressed), with_storage makes a usable tensor of them.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <string>

namespace reprise::detail {

/// A detached tensor that shares `tensor`'s storage.
at::Tensor alias_of(const at::Tensor& tensor, const c10::VariableVersion& version_counter);

/// Whether a placeholder and a storage are enough to rebuild the tensor: it is strided, and neither
/// nested nor quantized.
bool supports_placeholder(const at::Tensor& tensor);

/// `tensor` without its storage, with a version counter of its own.
REPRISE_API at::Tensor placeholder_for(const at::Tensor& tensor);

/// The same for a tensor that nobody may read: views are allowed, access to its memory throws
/// `why_not`.
at::Tensor unreadable_placeholder_for(const at::Tensor& tensor, std::string why_not);

/// A new tensor with the placeholder's metadata over `storage`.
at::Tensor with_storage(const at::Tensor& placeholder, c10::Storage storage);

}  // namespace reprise::detail
