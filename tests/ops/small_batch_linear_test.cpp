// The kernel of decoding: right in every shape, and each row by itself.
#include "ops/cpu/small_batch_linear.h"

#include "ops/linear/aten_linear.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

class FewRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ops::has_small_batch_kernel()) {
      GTEST_SKIP() << "this processor has no AVX2 and FMA";
    }
    torch::manual_seed(0);
  }
};

TEST_F(FewRows, EqualTheProductInDoublePrecision) {
  // Widths around a vector's eight lanes, rows and outputs around a block's four and three.
  for (const int64_t width : {1, 7, 8, 9, 24, 77}) {
    for (const int64_t outs : {1, 2, 3, 4, 11}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 8, 9}) {
        const auto x = torch::randn({rows, width}), weight = torch::randn({outs, width});
        const auto bias = rows % 2 == 0 ? torch::randn({outs}) : at::Tensor();
        auto expected = at::matmul(x.to(at::kDouble), weight.to(at::kDouble).t());
        if (bias.defined()) {
          expected += bias;
        }
        const auto found = ops::small_batch_linear(x, weight, bias).to(at::kDouble);
        ASSERT_TRUE(at::allclose(found, expected, /*rtol=*/1e-5, /*atol=*/1e-5))
            << rows << " rows, " << width << " wide, " << outs << " outputs";
      }
    }
  }
}

TEST_F(FewRows, DoNotDependOnTheRowsBesideThem) {
  const auto x = torch::randn({9, 100}), weight = torch::randn({31, 100});
  const auto together = ops::small_batch_linear(x, weight, {});
  for (int64_t row = 0; row < x.size(0); ++row) {
    const auto alone = ops::small_batch_linear(x.narrow(0, row, 1), weight, {});
    EXPECT_TRUE(testing::bitwise_equal(alone, together.narrow(0, row, 1))) << "row " << row;
  }
}

TEST_F(FewRows, DoNotDependOnTheNumberOfThreads) {
  const auto x = torch::randn({5, 256}), weight = torch::randn({1001, 256});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = ops::small_batch_linear(x, weight, {});
  at::set_num_threads(2);
  const auto two = ops::small_batch_linear(x, weight, {});
  at::set_num_threads(threads);
  EXPECT_TRUE(testing::bitwise_equal(one, two));
}

TEST_F(FewRows, AreLeftToLibTorchWhereGradientsAreRecorded) {
  const auto x = torch::randn({2, 1, 16});
  const auto weight = torch::randn({4, 16}, torch::requires_grad());
  EXPECT_TRUE(ops::plain_linear(x, weight).requires_grad());
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(at::allclose(ops::plain_linear(x, weight), at::linear(x, weight), 1e-5, 1e-6));
}

}  // namespace
}  // namespace reprise
