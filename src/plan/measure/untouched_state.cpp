#include "plan/measure/untouched_state.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/storage_bytes.h"

#include <ATen/ops/clone.h>

#include <algorithm>
#include <utility>

namespace reprise::planning {

UntouchedState::UntouchedState(ActivationCounter& counter) : counter_(counter) {
  for (const auto& generator : detail::default_generators()) {
    generators_.emplace_back(generator);
  }
}

UntouchedState::~UntouchedState() {
  const detail::EngineOpsGuard guard;
  for (auto& gradient : gradients_) {
    gradient.leaf.mutable_grad() = std::move(gradient.before);
  }
  for (const auto& content : contents_) {
    if (auto storage = content.storage.lock()) {
      detail::bytes_of(c10::Storage(std::move(storage))).copy_(content.bytes);
    }
  }
  for (const auto& state : generators_) {
    const bool is_others = others_draw_ && state.generator().device().is_cpu();
    if (!is_others && !(state.now() == state)) {
      state.restore();
    }
  }
}

void UntouchedState::before_accumulation(const at::Tensor& leaf) {
  const bool is_known = std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& known) {
    return known.leaf.is_same(leaf);
  });
  if (!is_known) {
    gradients_.push_back({leaf, std::exchange(leaf.mutable_grad(), {})});
  }
}

bool UntouchedState::had_gradient(const at::Tensor& leaf) const {
  return std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& known) {
    return known.leaf.is_same(leaf) && known.before.defined();
  });
}

void UntouchedState::before_write(const c10::Storage& storage) {
  const bool is_known = std::any_of(contents_.begin(), contents_.end(), [&](const auto& known) {
    return known.storage._unsafe_get_target() == storage.unsafeGetStorageImpl();
  });
  if (!is_known) {
    const detail::EngineOpsGuard guard;
    contents_.push_back({storage.getWeakStorageImpl(), detail::bytes_of(storage).clone()});
    counter_.set_aside(contents_.back().bytes.storage());
  }
}

}  // namespace reprise::planning
