#include "checkpoint/offload/placeholder.h"

#include <utility>

namespace reprise::detail {

at::Tensor alias_of(const at::Tensor& tensor, const c10::VariableVersion& version_counter) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      version_counter, /*allow_tensor_metadata_change=*/true));
}

bool supports_placeholder(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized() &&
         tensor.has_storage();
}

at::Tensor placeholder_for(const at::Tensor& tensor) {
  auto alias = alias_of(tensor, c10::VariableVersion(/*version=*/0));
  alias.unsafeGetTensorImpl()->set_storage_keep_dtype(
      c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, tensor.device())));
  return alias;
}

at::Tensor unreadable_placeholder_for(const at::Tensor& tensor, std::string why_not) {
  // As large as the original, because views are compared with the size of their storage.
  c10::Storage storage(c10::Storage::use_byte_size_t(),
                       tensor.storage().nbytes(),
                       c10::DataPtr(nullptr, tensor.device()));
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      std::move(why_not));
  auto alias = alias_of(tensor, c10::VariableVersion(/*version=*/0));
  alias.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  return alias;
}

at::Tensor with_storage(const at::Tensor& placeholder, c10::Storage storage) {
  auto tensor = alias_of(placeholder, c10::VariableVersion(/*version=*/0));
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  return tensor;
}

}  // namespace reprise::detail
