#include "checkpoint/saved_inputs.h"

#include <utility>

namespace reprise::detail {

SavedInputs::SavedInputs(const std::vector<at::Tensor>& inputs) {
  inputs_.reserve(inputs.size());
  for (const auto& tensor : inputs) {
    Input input;
    if (tensor.defined() && tensor.is_inference()) {
      input.inference = tensor;
    } else if (tensor.defined()) {
      input.saved = torch::autograd::SavedVariable(tensor, /*is_output=*/false);
      input.version_counter = tensor.unsafeGetTensorImpl()->version_counter();
      input.version = input.version_counter.current_version();
      input.storage = tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
    }
    inputs_.push_back(std::move(input));
  }
}

std::optional<size_t> SavedInputs::first_modified(
    const std::function<bool(const c10::StorageImpl*)>& is_ignored) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto& input = inputs_[i];
    if (input.version_counter.enabled() &&
        input.version_counter.current_version() != input.version &&
        !(is_ignored && is_ignored(input.storage))) {
      return i;
    }
  }
  return std::nullopt;
}

std::vector<at::Tensor> SavedInputs::unpack() const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs_.size());
  for (const auto& input : inputs_) {
    tensors.push_back(input.inference.defined() ? input.inference : input.saved.unpack());
  }
  return tensors;
}

}  // namespace reprise::detail
