#include "plan/measure/gradient_hooks.h"

#include "plan/measure/activation_counter.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace reprise::planning {

namespace {

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(c10::Device device, GradientHooks::Listener listener, bool had_gradient)
      : device_(device), listener_(std::move(listener)), has_gradient_(had_gradient) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    const at::Tensor& gradient = parameter.grad();
    if (!std::exchange(has_gradient_, true) && gradient.defined() && gradient.has_storage()) {
      listener_(counted_bytes(gradient.storage(), device_));
    }
  }

 private:
  const c10::Device device_;
  const GradientHooks::Listener listener_;
  bool has_gradient_;
};

}  // namespace

GradientHooks::GradientHooks(c10::Device device,
                             const std::vector<at::Tensor>& parameters,
                             const Listener& listener) {
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
    if (post_acc_grad_hooks(parameter) == nullptr) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameter, std::make_unique<GradientHook>(device, listener, parameter.grad().defined()));
      parameters_.push_back(parameter);
    }
  }
}

void announce_gradient(const at::Tensor& leaf) {
  if (const auto& hook = torch::autograd::impl::post_acc_grad_hooks(leaf)) {
    (*hook)(leaf);
  }
}

std::vector<at::Tensor> unwatched(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> found;
  for (const auto& parameter : parameters) {
    if (parameter.is_leaf() && torch::autograd::impl::post_acc_grad_hooks(parameter) == nullptr) {
      found.push_back(parameter);
    }
  }
  return found;
}

GradientHooks::~GradientHooks() {
  for (const auto& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

}  // namespace reprise::planning
