#include "plan/activation_meter.h"

#include "plan/activation_counter.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace reprise::planning {

/// Gradients arrive on the threads of the autograd engine.
class ActivationMeter::State {
 public:
  explicit State(c10::Device device) : counter_(device) {}

  void accumulated(const at::Tensor& gradient) {
    const std::scoped_lock lock(mutex_);
    peak_ = std::max(peak_, counter_.cut());
    if (gradient.defined() && gradient.has_storage()) {
      counter_.set_aside(gradient.storage());
    }
  }

  int64_t peak() {
    const std::scoped_lock lock(mutex_);
    peak_ = std::max(peak_, counter_.cut());
    return peak_;
  }

  int64_t now() const {
    const std::scoped_lock lock(mutex_);
    return counter_.now();
  }

 private:
  mutable std::mutex mutex_;
  ActivationCounter counter_;
  int64_t peak_ = 0;
};

class ActivationMeter::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(std::shared_ptr<State> state, bool had_gradient)
      : state_(std::move(state)), had_gradient_(had_gradient) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    // A gradient that was there before the step is no activation by the start's own count.
    if (!had_gradient_) {
      state_->accumulated(parameter.grad());
    }
  }

 private:
  std::shared_ptr<State> state_;
  const bool had_gradient_;
};

ActivationMeter::ActivationMeter(c10::Device device, const std::vector<at::Tensor>& parameters)
    : state_(std::make_shared<State>(device)) {
  using torch::autograd::impl::post_acc_grad_hooks;
  for (const auto& parameter : parameters) {
    TORCH_CHECK(parameter.is_leaf() && post_acc_grad_hooks(parameter) == nullptr,
                "[plan] an ActivationMeter watches leaf tensors that nobody else watches; "
                "parameter ",
                parameter.sizes(),
                " is ",
                parameter.is_leaf() ? "watched already: destroy that meter or remove that hook."
                                    : "no leaf: list the tensors that gradients accumulate in.");
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

int64_t ActivationMeter::peak() {
  return state_->peak();
}

int64_t ActivationMeter::now() const {
  return state_->now();
}

}  // namespace reprise::planning
