// Projections whose weights lie one after the other: one product, the same parameters, also where
// autocast multiplies in a narrower type; and products that are written side by side.
#include "ops/linear/joined.h"
#include "ops/add_rounded.h"
#include "ops/linear/linear.h"
#include "ops/linear/side_by_side.h"
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

TEST(SideBySide, AreTheProductsInTheirColumns) {
  torch::manual_seed(0);
  const auto leaf = [](at::IntArrayRef sizes) {
    return torch::randn(sizes, torch::kDouble).requires_grad_();
  };
  const std::vector<at::Tensor> leaves{
      leaf({2, 3, 2}), leaf({5, 2}), leaf({2, 3, 3}), leaf({4, 3})};
  const auto &a = leaves[0], &wide_a = leaves[1], &b = leaves[2], &wide_b = leaves[3];
  const auto found = side_by_side({{a, wide_a, 0}, {b, wide_b, 7}}, 12);
  const auto gap = torch::zeros({2, 3, 2}, torch::kDouble);
  const auto end = torch::zeros({2, 3, 1}, torch::kDouble);
  const auto expected = at::cat({at::linear(a, wide_a), gap, at::linear(b, wide_b), end}, -1);
  EXPECT_TRUE(at::allclose(found, expected));
  const auto weights = torch::randn_like(expected);
  const auto gradients = torch::autograd::grad({(found * weights).sum()}, leaves);
  const auto plain = torch::autograd::grad({(expected * weights).sum()}, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(at::allclose(gradients[i], plain[i])) << i;
  }
}

TEST(SideBySide, AddedToAProductAreWhatAddingThemAsAWholeGives) {
  torch::manual_seed(0);
  constexpr int64_t kWidth = 4096;  // 256 rows at a time
  const auto product = torch::randn({2, 300, kWidth}).to(at::kBFloat16).requires_grad_();
  const auto small =
      [](at::IntArrayRef sizes) {  // integers: exact in whatever order they are added
        return torch::randint(-3, 4, sizes).to(at::kFloat).requires_grad_();
      };
  const auto x = small({2, 300, 2}), weight = small({1000, 2});
  const std::vector<ColumnProduct> parts{{x, weight, 96}, {x, weight, 2000}};
  const auto found = add_side_by_side(product, parts);
  const auto expected = add_rounded(product, side_by_side(parts, kWidth));
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(testing::bitwise_equal(found.detach(), expected.detach()));
  const auto gradients_of = [&](const at::Tensor& y) {
    return torch::autograd::grad({y.to(at::kFloat).square().sum()}, {product, x, weight});
  };
  const auto gradients = gradients_of(found), plain = gradients_of(expected);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(at::allclose(gradients[i], plain[i], 1e-4, 0.1)) << i;
  }
}

TEST(SideBySide, RefusesPartsThatOverlap) {
  const auto x = torch::randn({3, 2}), weight = torch::randn({4, 2});
  EXPECT_THROW(side_by_side({{x, weight, 0}, {x, weight, 3}}, 8), c10::Error);
  EXPECT_THROW(side_by_side({{x, weight, 0}, {x, weight, 4}}, 7), c10::Error);
  EXPECT_NO_THROW(side_by_side({{x, weight, 0}, {x, weight, 4}}, 8));
  EXPECT_THROW(add_side_by_side(torch::randn({2, 8}), {{x, weight, 0}}), c10::Error);
}

}  // namespace
}  // namespace reprise::ops
