#include "checkpoint/state/rng_state.h"

namespace reprise::detail {

RngState::RngState(const std::vector<at::Generator>& generators) {
  states_.reserve(generators.size());
  for (const auto& generator : generators) {
    states_.emplace_back(generator);
  }
}

RngState RngState::of_defaults() {
  return RngState(default_generators());
}

void RngState::restore() const {
  for (const auto& state : states_) {
    state.restore();
  }
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
