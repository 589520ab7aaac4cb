// What the regions of a traced step are called with, and whether moving it away would free it.
#include "plan/step_tracer.h"

#include "plan/storage_facts.h"

#include <algorithm>

namespace reprise::planning {
namespace {

/// What a region may give away: a result of some operator, and no view of a leaf.
bool is_activation(const at::Tensor& tensor) {
  return !tensor.is_leaf() && !(tensor.is_view() && tensor._base().is_leaf());
}

}  // namespace

void StepTracer::note_inputs(Watch& watch, const std::vector<at::Tensor>& inputs) const {
  for (const auto& tensor : inputs) {
    const auto number = ledger_.find(tensor);
    const bool is_known =
        !number || std::any_of(watch.inputs.begin(), watch.inputs.end(), [&](const Input& known) {
          return known.number == *number;
        });
    if (is_known) {
      continue;
    }
    const Role& role = roles_[*number];
    Input input{.number = *number,
                .tensor = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                .traced = {.storage = role.storage, .bytes = role.bytes, .made = role.made}};
    if (!tensor.is_inference()) {
      input.version = tensor.unsafeGetTensorImpl()->version_counter().current_version();
      input.traced.host_bytes = is_activation(tensor) ? host_bytes_of(tensor) : 0;
    }
    watch.inputs.push_back(std::move(input));
    watch.raw_input_bytes += tensor.storage().nbytes();
  }
}

/// Backward begins: who still holds an input beside the region, holds it whatever is decided.
void StepTracer::find_private_inputs() {
  for (auto& watch : watches_) {
    for (auto& input : watch.inputs) {
      const size_t owners = input.tensor.use_count();
      const auto tensor = input.tensor.lock();
      const bool is_changed =
          !tensor || tensor->version_counter().current_version() != input.version;
      if (is_changed) {
        input.traced.host_bytes = 0;
      }
      input.traced.is_private = owners == 1 && ledger_.holders(input.number) == 1;
    }
  }
}

}  // namespace reprise::planning
