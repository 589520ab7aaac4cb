// Numeric Jacobians: the gradients of checkpointed code against central differences, with no
// autograd on the other side of the comparison.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/numeric_gradient.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace reprise::testing {
namespace {

using ScalarFn = std::function<at::Tensor(at::Tensor)>;

/// y = x^3 * s, with a backward of its own that saves an input, an intermediate and a number.
struct ScaledCube : torch::autograd::Function<ScaledCube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x, double scale) {
    const auto square = x * x;
    context->save_for_backward({x, square});
    context->saved_data["scale"] = scale;
    return square * x * scale;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list upstream) {
    const auto saved = context->get_saved_variables();
    // Asks twice: each time the tensors must be there.
    EXPECT_TRUE(bitwise_equal(saved[1], context->get_saved_variables()[1]));
    const double scale = context->saved_data["scale"].toDouble();
    return {upstream[0] * (saved[0] * saved[0] + 2 * saved[1]) * scale, at::Tensor()};
  }
};

void expect_gradient_matches(const ScalarFn& fn, const CheckpointOptions& options) {
  const auto x = double_leaf({3, 4}, 9);
  checkpoint(options, fn, x).backward();
  const auto expected = numeric_gradient(fn, x);
  EXPECT_TRUE(torch::allclose(x.grad(), expected, 1e-6, 1e-7)) << x.grad() << expected;
}

TEST(NumericJacobian, OfACustomFunction) {
  const ScalarFn fn = [](at::Tensor x) { return ScaledCube::apply(x.sin(), 0.7).sum(); };
  expect_gradient_matches(fn, {});
  expect_gradient_matches(fn, {.early_stop = false});
  expect_gradient_matches(fn, {.use_reentrant = true});
}

TEST(NumericJacobian, OfARegion) {
  const ScalarFn fn = [](at::Tensor x) {
    auto y = torch::mm(x, x.t()).tanh();
    y = torch::layer_norm(y, {y.size(1)});
    return (torch::softmax(y, 1) * y.exp()).sum();
  };
  expect_gradient_matches(fn, {});
  expect_gradient_matches(fn, {.policy = policy::save_matmuls()});
  expect_gradient_matches(fn, {.use_reentrant = true});
}

TEST(NumericJacobian, OfNestedRegions) {
  const ScalarFn fn = [](at::Tensor x) {
    const auto inner = [](at::Tensor h) { return ScaledCube::apply(h.sin(), 0.5); };
    return checkpoint(inner, checkpoint(inner, x).exp()).sum();
  };
  expect_gradient_matches(fn, {});
}

TEST(NumericJacobian, OfAGradient) {
  const ScalarFn slope = [](at::Tensor x) {
    x = x.requires_grad() ? x : x.set_requires_grad(true);
    const auto y = checkpoint([](at::Tensor h) { return (h.sin() * h.exp()).sum(); }, x);
    return torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0].square().sum();
  };
  const auto x = double_leaf({4}, 9);
  slope(x).backward();
  EXPECT_TRUE(torch::allclose(x.grad(), numeric_gradient(slope, x), 1e-5, 1e-6));
}

}  // namespace
}  // namespace reprise::testing
