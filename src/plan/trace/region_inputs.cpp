#include "plan/trace/region_inputs.h"

#include "plan/trace/storage_facts.h"

#include <algorithm>
#include <utility>

namespace reprise::planning {
namespace {

/// Whether a region may offload the tensor: the result of an operator, and no view of a leaf.
bool is_activation(const at::Tensor& tensor) {
  return !tensor.is_leaf() && !(tensor.is_view() && tensor._base().is_leaf());
}

}  // namespace

RegionInputs::RegionInputs(const std::vector<at::Tensor>& tensors,
                           const StorageRecorder& storages) {
  for (const auto& tensor : tensors) {
    const auto number = storages.find(tensor);
    const bool is_known =
        !number || std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& known) {
          return known.number == *number;
        });
    if (is_known) {
      continue;
    }
    const auto& entry = storages.entry(*number);
    Input input{.number = *number,
                .traced = {.storage = entry.traced, .bytes = entry.bytes, .made = entry.made}};
    if (!tensor.is_inference()) {
      input.version_counter = tensor.unsafeGetTensorImpl()->version_counter();
      input.version = input.version_counter.current_version();
      input.traced.host_bytes = is_activation(tensor) ? host_bytes_of(tensor) : 0;
    }
    inputs_.push_back(std::move(input));
    raw_bytes_ += tensor.storage().nbytes();
  }
}

void RegionInputs::note_saved(size_t number) {
  for (auto& input : inputs_) {
    input.traced.is_saved = input.traced.is_saved || input.number == number;
  }
}

void RegionInputs::find_private(const StorageRecorder& storages) {
  for (auto& input : inputs_) {
    const bool is_changed =
        input.version_counter.enabled() && input.version_counter.current_version() != input.version;
    if (is_changed) {
      input.traced.host_bytes = 0;
    }
    // The region holds a detached alias, and nothing else holds the storage.
    input.traced.is_private = storages.holders(input.number) == 1;
  }
}

}  // namespace reprise::planning
