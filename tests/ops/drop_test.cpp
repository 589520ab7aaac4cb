// Dropout by position: its kernels keep what the reference keeps, whole or piece by piece.
#include "ops/drop.h"

#include "ops/drop_case.h"
#include "ops/reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reprise::ops {
namespace {

using testing::kDropout;
using testing::seed_of;

TEST(Drop, KeepsTheSameValuesAsItsReference) {
  torch::manual_seed(0);
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto out_type : {type, at::kFloat}) {
      for (const int64_t first : {0, 7, 4096}) {
        for (const bool adds : {false, true}) {
          const auto x = torch::randn({3, 20001}).to(type);
          auto found = torch::randn({3, 20001}).to(out_type);
          auto expected = found.clone();
          drop_into(found, x, seed_of(99), kDropout, first, adds);
          reference::drop_into_(expected, x, seed_of(99), kDropout, first, adds);
          EXPECT_TRUE(at::equal(found, expected)) << type << out_type << first << adds;
        }
      }
    }
  }
}

TEST(Drop, OfAPieceIsThePieceOfTheWhole) {
  const auto x = torch::randn({1, 1001});
  auto whole = torch::empty_like(x), piece = torch::empty({1, 500});
  drop_into(whole, x, seed_of(1), kDropout, 0, /*adds=*/false);
  drop_into(piece, x.narrow(1, 333, 500).contiguous(), seed_of(1), kDropout, 333, /*adds=*/false);
  EXPECT_TRUE(at::equal(piece, whole.narrow(1, 333, 500)));
}

TEST(Drop, KeepsAsManyAsItShouldAndOthersForOtherSeeds) {
  constexpr int64_t kCount = 1 << 20;
  const auto ones = torch::ones({kCount});
  const auto kept = [&](int64_t seed, double p) {
    auto out = torch::empty_like(ones);
    drop_into(out, ones, seed_of(seed), p, 0, /*adds=*/false);
    return out;
  };
  for (const double p : {0.0, 0.05, 0.5, 0.9}) {
    const double sigma = std::sqrt(p * (1 - p) / kCount);
    EXPECT_NEAR(kept(3, p).mean().item<double>(), 1 - p, 5 * sigma) << p;
  }
  // Independent of a neighbour and of the same place under the next seed.
  const auto one = kept(3, 0.5);
  EXPECT_NEAR((one * kept(4, 0.5)).mean().item<double>(), 0.25, 0.005);
  EXPECT_NEAR((one * one.roll(1)).mean().item<double>(), 0.25, 0.005);
}

TEST(Drop, RefusesTensorsThatDoNotFit) {
  auto out = torch::empty({4});
  EXPECT_THROW(drop_into(out, torch::empty({5}), seed_of(1), 0.5, 0, false), c10::Error);
  EXPECT_THROW(drop_into(out, torch::empty({4}), torch::ones({1}), 0.5, 0, false), c10::Error);
  EXPECT_THROW(drop_into(out, torch::empty({4}), seed_of(1), 1.0, 0, false), c10::Error);
  EXPECT_THROW(drop_into(out, torch::empty({8}).slice(0, 0, 8, 2), seed_of(1), 0.5, 0, false),
               c10::Error);
}

}  // namespace
}  // namespace reprise::ops
