#include "checkpoint/state/saved_inputs.h"

#include "checkpoint/offload/placeholder.h"

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

/// Restores an offloaded input.
class OffloadedInput final : public torch::autograd::SavedVariableHooks {
 public:
  OffloadedInput(std::shared_ptr<OffloadGroup> group, size_t item)
      : offload_group_(std::move(group)), item_(item) {}
  void call_pack_hook(const at::Tensor& tensor) override { tensor_ = placeholder_for(tensor); }
  at::Tensor call_unpack_hook() override {
    return with_storage(tensor_, offload_group_->take(item_));
  }

 private:
  const std::shared_ptr<OffloadGroup> offload_group_;
  const size_t item_;
  at::Tensor tensor_;
};

/// Whether it is the result of an operator, and not a view of a leaf.
bool is_activation(const at::Tensor& tensor) {
  return !tensor.is_leaf() && !(tensor.is_view() && tensor._base().is_leaf());
}

}  // namespace

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

bool SavedInputs::is_unchanged(const Input& input) {
  return input.storage != nullptr && input.version_counter.current_version() == input.version;
}

bool SavedInputs::are_hooked() const {
  return std::any_of(
      inputs_.begin(), inputs_.end(), [](const Input& input) { return input.saved.has_hooks(); });
}

void SavedInputs::add_candidates(
    OffloadCandidates& candidates,
    const std::function<bool(const c10::StorageImpl*)>& is_written) const {
  for (const auto& input : inputs_) {
    if (input.storage == nullptr) {
      continue;
    }
    if (!is_unchanged(input) || is_written(input.storage)) {
      // The recompute starts from its content in the write log.
      candidates.skip(input.storage->nbytes());
      continue;
    }
    const auto tensor = input.saved.unpack();
    if (is_activation(tensor) && supports_placeholder(tensor)) {
      candidates.add(tensor.storage(), /*is_shared=*/true);
    } else {
      candidates.skip(tensor.storage().nbytes());
    }
  }
}

void SavedInputs::move_to(const OffloadCandidates& candidates,
                          const std::shared_ptr<OffloadGroup>& group) {
  for (auto& input : inputs_) {
    if (!is_unchanged(input)) {
      continue;
    }
    const auto tensor = input.saved.unpack();
    const auto item = candidates.find(tensor.storage());
    if (item && is_activation(tensor) && supports_placeholder(tensor)) {
      input.saved.register_hooks(std::make_unique<OffloadedInput>(group, *item));
    }
  }
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
