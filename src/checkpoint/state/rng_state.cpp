#include "checkpoint/state/rng_state.h"

#include <algorithm>

namespace reprise::detail {

RngState::RngState(const std::vector<at::Generator>& generators) {
  states_.reserve(generators.size());
  for (const auto& generator : generators) {
    states_.emplace_back(generator);
  }
}

RngState RngState::of_defaults() {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  for (int64_t i = 0; i < cuda_device_count(); ++i) {
    generators.push_back(
        default_generator(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(i))));
  }
  return RngState(generators);
}

void RngState::restore() const {
  for (const auto& state : states_) {
    state.restore();
  }
}

void RngState::keep_changed() {
  std::erase_if(states_, [](const GeneratorState& state) { return state == state.now(); });
}

bool RngState::covers(const at::Generator& generator) const {
  return std::any_of(states_.begin(), states_.end(), [&generator](const GeneratorState& state) {
    return state.generator() == generator;
  });
}

RngState RngState::now() const {
  RngState state = *this;
  for (auto& one : state.states_) {
    one = one.now();
  }
  return state;
}

RngGuard::RngGuard(const RngState& state) {
  if (!state.is_empty()) {
    callers_.emplace(state.now());
    state.restore();
  }
}

RngGuard::~RngGuard() {
  if (callers_) {
    callers_->restore();
  }
}

}  // namespace reprise::detail
