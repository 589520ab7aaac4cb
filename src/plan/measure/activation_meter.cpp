#include "plan/measure/activation_meter.h"

#include "memory/allocation_watch.h"
#include "plan/measure/activation_counter.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace reprise::planning {

/// Gradients arrive on the threads of the autograd engine.
class ActivationMeter::State {
 public:
  State(c10::Device device, int64_t limit) : device_(device), watch_(device, limit) {}

  void accumulated(const at::Tensor& gradient) {
    if (gradient.defined() && gradient.has_storage()) {
      watch_.raise_floor(counted_bytes(gradient.storage(), device_));
    }
  }

  const memory::AllocationWatch& watch() const { return watch_; }

 private:
  const c10::Device device_;
  memory::AllocationWatch watch_;
};

class ActivationMeter::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(std::shared_ptr<State> state, bool had_gradient)
      : state_(std::move(state)), has_gradient_(had_gradient) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    // If there was a gradient already, accumulating into it takes no new memory.
    if (!std::exchange(has_gradient_, true)) {
      state_->accumulated(parameter.grad());
    }
  }

 private:
  std::shared_ptr<State> state_;
  bool has_gradient_;
};

ActivationMeter::ActivationMeter(c10::Device device,
                                 const std::vector<at::Tensor>& parameters,
                                 int64_t limit)
    : state_(std::make_shared<State>(device, limit)) {
  using torch::autograd::impl::post_acc_grad_hooks;
  for (const auto& parameter : parameters) {
    TORCH_CHECK(parameter.is_leaf() && post_acc_grad_hooks(parameter) == nullptr,
                "[plan] an ActivationMeter watches leaf tensors that have no other hook; "
                "parameter ",
                parameter.sizes(),
                " is ",
                parameter.is_leaf() ? "watched already: destroy that meter or remove that hook."
                                    : "no leaf: list the tensors that accumulate gradients.");
  }
  for (const auto& parameter : parameters) {
    // Tied weights may be listed twice.
    if (parameter.requires_grad() && post_acc_grad_hooks(parameter) == nullptr) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameter, std::make_unique<Hook>(state_, parameter.grad().defined()));
      parameters_.push_back(parameter);
    }
  }
}

ActivationMeter::~ActivationMeter() {
  for (const auto& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

int64_t ActivationMeter::peak() const {
  return state_->watch().most();
}

int64_t ActivationMeter::now() const {
  return state_->watch().now();
}

}  // namespace reprise::planning
