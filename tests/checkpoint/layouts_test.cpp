// Tensors that are not plain strided memory pass through regions too.
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

template <class Fn>
void expect_same_gradient(const at::Tensor& weight, const at::Tensor& input, const Fn& fn) {
  const auto gradient = [&](auto&& run) {
    weight.mutable_grad() = at::Tensor();
    run().sum().backward();
    return weight.grad().clone();
  };
  const auto plain = gradient([&] { return fn(input); });
  EXPECT_TRUE(bitwise_equal(plain, gradient([&] { return checkpoint(fn, input); })));
  EXPECT_TRUE(bitwise_equal(plain, gradient([&] {
                              return checkpoint(
                                  {.policy = policy::save_ops({"aten::tanh"})}, fn, input);
                            })));
}

TEST(Layouts, NestedTensorsHaveNoSizesToCompare) {
  const auto weight = torch::randn({4, 4}).set_requires_grad(true);
  const auto nested =
      at::_nested_tensor_from_tensor_list({torch::randn({2, 4}), torch::randn({3, 4})});
  expect_same_gradient(weight, nested, [weight](const at::Tensor& x) {
    return at::nested_to_padded_tensor(at::linear(x, weight), 0.0).tanh();
  });
}

TEST(Layouts, SparseInputs) {
  const auto weight = torch::randn({4, 4}).set_requires_grad(true);
  expect_same_gradient(weight, torch::eye(4).to_sparse(), [weight](const at::Tensor& x) {
    return at::_sparse_mm(x, weight).tanh().square();
  });
}

TEST(Layouts, ValuesCheckRefusesWhatItCannotHash) {
  const auto weight = torch::randn({4, 4}).set_requires_grad(true);
  const auto message = message_of<CheckpointError>([&] {
    checkpoint(
        {.determinism_check = DeterminismCheck::Values},
        [weight](const at::Tensor& x) { return at::_sparse_mm(x, weight); },
        torch::eye(4).to_sparse());
  });
  EXPECT_TRUE(contains(message, "Sparse"));
}

TEST(Layouts, ChannelsLastAndConjugatedViews) {
  const auto image = torch::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({3, 3, 3, 3}).set_requires_grad(true);
  expect_same_gradient(
      weight, image, [weight](const at::Tensor& x) { return torch::conv2d(x, weight).tanh(); });
  const auto complex = torch::randn({3}, torch::kComplexFloat).set_requires_grad(true);
  expect_same_gradient(
      complex, torch::randn({3}, torch::kComplexFloat), [complex](const at::Tensor& x) {
        return at::real((complex.conj() * x).tanh());
      });
}

}  // namespace
}  // namespace reprise::testing
