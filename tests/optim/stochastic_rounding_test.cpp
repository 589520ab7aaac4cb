// Stochastic rounding: its random bits, its mean, and that nothing but seed, step, name and
// position matters.
#include "optim/stochastic_rounding.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise::testing {
namespace {

const RoundingKey kKey(7, "layers.0.weight", 3, 0);

uint32_t folded(uint32_t bits, int count) {
  return bits ^ (bits >> count);
}

uint32_t hashed(uint32_t bits) {
  bits = folded(bits, 16) * 0x7FEB352D;
  bits = folded(bits, 15) * 0x846CA68B;
  return folded(bits, 16);
}

uint32_t unfolded(uint32_t bits, int count) {
  uint32_t result = bits;
  for (int done = count; done < 32; done += count) {
    result = bits ^ (result >> count);
  }
  return result;
}

uint32_t inverse(uint32_t odd) {
  uint32_t result = odd;
  for (int i = 0; i < 5; ++i) {
    result *= 2 - odd * result;
  }
  return result;
}

/// The input of a hash.
uint32_t unhashed(uint32_t bits) {
  bits = unfolded(bits, 16) * inverse(0x846CA68B);
  bits = unfolded(bits, 15) * inverse(0x7FEB352D);
  return unfolded(bits, 16);
}

// LibTorch's kernels for int32 must wrap around, in whole vectors and in what is left of them.
TEST(StochasticRounding, HashesPositionsAsUnsignedArithmeticDoes) {
  constexpr int64_t kBegin = (int64_t{1} << 32) - 500, kCount = 1003;
  const at::Tensor bits = kKey.bits(kBegin, kCount, at::kCPU);
  const auto value = [&](int64_t i) { return std::bit_cast<uint32_t>(bits[i].item<int32_t>()); };
  const uint32_t first = unhashed(value(0));
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(value(i), hashed(first + static_cast<uint32_t>(i) * 0x9E3779B9)) << i;
  }
}

TEST(StochasticRounding, HasOtherBitsForEachSeedNameStepAndPurpose) {
  const auto bits = [](const RoundingKey& key) { return key.bits(0, 64, at::kCPU); };
  const at::Tensor own = bits(kKey);
  EXPECT_TRUE(bits(RoundingKey(7, "layers.0.weight", 3, 0)).equal(own));
  for (const RoundingKey& other : {RoundingKey(8, "layers.0.weight", 3, 0),
                                   RoundingKey(7, "layers.1.weight", 3, 0),
                                   RoundingKey(7, "layers.0.weight", 4, 0),
                                   RoundingKey(7, "layers.0.weight", 3, 1)}) {
    EXPECT_LT(bits(other).eq(own).sum().item<int64_t>(), 2);
  }
}

at::Tensor rounded(const at::Tensor& values, int64_t begin = 0) {
  const at::Tensor target = at::empty_like(values, at::kBFloat16);
  round_into(target, values.clone(), kKey, begin);
  return target;
}

TEST(StochasticRounding, IsRightOnAverageAndNeverFurtherThanANeighbour) {
  constexpr int64_t kCount = 1 << 20;
  constexpr double kSpacing = 1.0 / 128;  // of bfloat16 from 1 to 2
  for (const double part : {0.0, 0.125, 0.5, 0.9}) {
    const double value = 1 + part * kSpacing;
    for (const double sign : {1.0, -1.0}) {
      const at::Tensor results = rounded(torch::full({kCount}, sign * value)).to(at::kDouble);
      EXPECT_TRUE(((results - sign).abs() <= kSpacing).all().item<bool>());
      const double ups = (results - sign).abs().gt(0).sum().item<double>() / kCount;
      EXPECT_NEAR(ups, part, 0.0025);  // five standard deviations
    }
  }
}

TEST(StochasticRounding, LeavesWhatBfloat16CanRepresent) {
  const at::Tensor values = torch::randn({1000}).to(at::kBFloat16);
  EXPECT_TRUE(bitwise_equal(rounded(values.to(at::kFloat)), values));
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor special = torch::tensor({infinity, -infinity, 0.F});
  EXPECT_TRUE(bitwise_equal(rounded(special), special.to(at::kBFloat16)));
}

TEST(StochasticRounding, DependsOnThePositionInTheWhole) {
  const at::Tensor values = torch::randn({1000});
  const at::Tensor whole = rounded(values);
  EXPECT_TRUE(bitwise_equal(rounded(values.slice(0, 300), 300), whole.slice(0, 300).clone()));
}

// Rounded to nearest, the weight would stay at 1.
TEST(StochasticRounding, LetsWeightsMoveByUpdatesTooSmallForThem) {
  for (const auto kind :
       {OptimizerKind::AdamW8bit, OptimizerKind::AdamWBf16, OptimizerKind::Adafactor}) {
    const at::Tensor weight = torch::ones({100, 100}, at::kBFloat16).set_requires_grad(true);
    const auto optimizer = Optimizer::make({{"w", weight}}, {.kind = kind});
    constexpr int kSteps = 64;
    constexpr double kRate = 1.0 / 4096;  // a 16th of the distance to the next bfloat16
    for (int i = 0; i < kSteps; ++i) {
      weight.mutable_grad() = torch::full_like(weight, 1).set_requires_grad(false);
      optimizer->step(kRate);
    }
    const double moved = 1 - weight.detach().to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(moved / (kSteps * kRate), 1, 0.05) << name_of(kind);
  }
}

}  // namespace
}  // namespace reprise::testing
