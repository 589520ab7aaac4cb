// Projections whose weights lie one after the other: one product, the same parameters, also where
// autocast multiplies in a narrower type.
#include "ops/linear/joined.h"
#include "ops/linear/linear.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/autocast.h>

#include <gtest/gtest.h>

namespace reprise::ops {
namespace {

std::vector<at::Tensor> filled(std::vector<at::Tensor> parts) {
  for (auto& part : parts) {
    part.normal_().requires_grad_();
  }
  return parts;
}

TEST(JoinedRows, AreTheirPartsInOneMatrix) {
  const auto parts = filled(adjacent_rows({3, 1, 2}, 4, at::kFloat));
  ASSERT_TRUE(are_adjacent(parts));
  const auto whole = join_rows(parts);
  EXPECT_TRUE(testing::bitwise_equal(whole.detach(), at::cat(parts, 0).detach()));
  EXPECT_EQ(whole.const_data_ptr(), parts[0].const_data_ptr());
}

TEST(JoinedRows, GiveEachPartItsRowsOfOneGradient) {
  const auto parts = filled(adjacent_rows({2, 3}, 4, at::kFloat));
  const auto x = torch::randn({5, 4});
  at::linear(x, join_rows(parts)).square().sum().backward();
  const auto joined = std::vector{parts[0].grad(), parts[1].grad()};
  EXPECT_TRUE(joined[0].is_alias_of(joined[1]));

  auto apart = at::cat(parts, 0).detach().requires_grad_();
  at::linear(x, apart).square().sum().backward();
  EXPECT_TRUE(testing::bitwise_equal(at::cat(joined, 0), apart.grad()));
}

TEST(JoinedRows, MayBeVectors) {
  const auto parts = filled(adjacent_rows({2, 3}, 0, at::kFloat));
  ASSERT_TRUE(are_adjacent(parts));
  EXPECT_EQ(join_rows(parts).sizes(), c10::IntArrayRef({5}));
}

TEST(JoinedRows, NoticeAWriteToEachPartBeforeBackward) {
  for (const size_t written : {0, 1}) {
    const auto parts = filled(adjacent_rows({2, 3}, 4, at::kFloat));
    const auto x = torch::randn({5, 4}).requires_grad_();
    const auto loss = at::linear(x, join_rows(parts)).sum();
    {
      const torch::NoGradGuard no_grad;
      parts[written].add_(1);
    }
    EXPECT_THROW(loss.backward(), c10::Error) << "part " << written;
  }
}

TEST(JoinedRows, AreLeavesThatCanBeTrained) {
  for (const auto& part : filled(adjacent_rows({2, 3}, 4, at::kFloat))) {
    EXPECT_TRUE(part.is_leaf());
    EXPECT_FALSE(part.is_view());
  }
}

TEST(JoinedRows, AreRefusedWhereTheyDoNotLieSo) {
  const auto parts = adjacent_rows({2, 3}, 4, at::kFloat);
  EXPECT_FALSE(are_adjacent({parts[1], parts[0]}));                  // in another order
  EXPECT_FALSE(are_adjacent({parts[0], parts[1].clone()}));          // in another storage
  EXPECT_FALSE(are_adjacent({parts[0], parts[1].narrow(0, 1, 2)}));  // with a gap
  EXPECT_FALSE(are_adjacent({parts[0].t(), parts[1].t()}));          // not contiguous
}

TEST(WiderWeights, AreConvertedUnderAutocastAsLinearConvertsThem) {
  torch::manual_seed(0);
  const auto parts = filled(adjacent_rows({2, 3}, 8, at::kFloat));
  const auto x = torch::randn({4, 8}).requires_grad_();
  const std::vector<at::Tensor> leaves{x, parts[0], parts[1]};
  const auto gradients_of = [&](const at::Tensor& y) {
    return torch::autograd::grad({y.to(at::kFloat).square().sum()}, leaves);
  };
  const AutocastScope autocast(at::kCPU);
  const auto y = ops::linear(x.to(at::kBFloat16), join_rows(parts), {});
  const auto expected = at::linear(x, at::cat(parts, 0));
  EXPECT_TRUE(testing::bitwise_equal(y.detach(), expected.detach()));
  const auto found = gradients_of(y), plain = gradients_of(expected);
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(found[i], plain[i], 0.02, 0.01)) << i;
  }
}

TEST(WiderWeights, AreRefusedWithoutAutocast) {
  const auto x = torch::randn({4, 8}).to(at::kBFloat16), weight = torch::randn({2, 8});
  EXPECT_TRUE(testing::contains(
      testing::message_of<c10::Error>([&] { ops::linear(x, weight, {}); }), "or use autocast"));
}

}  // namespace
}  // namespace reprise::ops
