#include "parallel/backward_hook.h"

#include "ops/node.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

namespace reprise {

namespace {

struct HookBackward : torch::autograd::Node {
  std::function<void()> hook;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    hook();
    return std::move(gradients);
  }
  std::string name() const override { return "HookBackward"; }
};

}  // namespace

at::Tensor with_backward_hook(at::Tensor x, std::function<void()> hook) {
  const auto node = ops::node_over<HookBackward>(x);
  if (node == nullptr) {
    return x;
  }
  node->hook = std::move(hook);
  at::Tensor same;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    same = at::alias(x);
  }
  // A write to one counts as a write to the other.
  torch::autograd::impl::set_version_counter(same, torch::autograd::impl::version_counter(x));
  torch::autograd::set_history(same, node);
  return same;
}

}  // namespace reprise
