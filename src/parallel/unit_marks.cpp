#include "parallel/unit_marks.h"

#include "ops/node.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

namespace reprise {

namespace {

struct MarkBackward : torch::autograd::Node {
  std::function<void()> passed;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    passed();
    return std::move(gradients);
  }
  std::string name() const override { return "MarkBackward"; }
};

}  // namespace

at::Tensor marked(at::Tensor x, std::function<void()> passed) {
  const auto node = ops::node_over<MarkBackward>(x);
  if (node == nullptr) {
    return x;
  }
  node->passed = std::move(passed);
  at::Tensor same;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    same = at::alias(x);
  }
  // A write to one is a write to the other.
  torch::autograd::impl::set_version_counter(same, torch::autograd::impl::version_counter(x));
  torch::autograd::set_history(same, node);
  return same;
}

}  // namespace reprise
