#include "checkpoint/hollow_tensor.h"

#include <utility>

namespace reprise::detail {

at::Tensor alias_of(const at::Tensor& tensor, const c10::VariableVersion& version_counter) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      version_counter, /*allow_tensor_metadata_change=*/true));
}

bool can_be_hollow(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized() &&
         tensor.has_storage();
}

at::Tensor hollow(const at::Tensor& tensor) {
  auto alias = alias_of(tensor, c10::VariableVersion(/*version=*/0));
  alias.unsafeGetTensorImpl()->set_storage_keep_dtype(
      c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, tensor.device())));
  return alias;
}

at::Tensor filled(const at::Tensor& hollow_tensor, c10::Storage bytes) {
  auto tensor = alias_of(hollow_tensor, c10::VariableVersion(/*version=*/0));
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(bytes));
  return tensor;
}

}  // namespace reprise::detail
