#include "plan/measure/activation_meter.h"

#include "memory/allocation_watch.h"

#include <utility>

namespace reprise::planning {

/// Gradients arrive on the threads of the autograd engine.
class ActivationMeter::State {
 public:
  State(c10::Device device, int64_t limit, GradientHooks::Listener listener)
      : watch_(device, limit), listener_(std::move(listener)) {}

  void accumulated(int64_t bytes) {
    watch_.raise_floor(bytes);
    if (listener_) {
      listener_(bytes);
    }
  }

  const memory::AllocationWatch& watch() const { return watch_; }

 private:
  memory::AllocationWatch watch_;
  const GradientHooks::Listener listener_;
};

ActivationMeter::ActivationMeter(c10::Device device,
                                 const std::vector<at::Tensor>& parameters,
                                 int64_t limit,
                                 GradientHooks::Listener listener)
    : state_(std::make_shared<State>(device, limit, std::move(listener))),
      hooks_(device, parameters, [state = state_](int64_t bytes) { state->accumulated(bytes); }) {}

ActivationMeter::~ActivationMeter() = default;

int64_t ActivationMeter::peak() const {
  return state_->watch().most();
}

int64_t ActivationMeter::now() const {
  return state_->watch().now();
}

}  // namespace reprise::planning
