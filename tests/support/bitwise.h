// Bitwise comparison of tensors.
#pragma once

#include "support/error_text.h"  // which tests of tensors want too
#include "support/tensors.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::testing {

/// Equal in shape, dtype and every bit (NaNs of the same bits are equal, -0 and 0 are not).
inline ::testing::AssertionResult bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) {
    return ::testing::AssertionFailure() << "one is undefined";
  }
  if (!a.defined()) {
    return ::testing::AssertionSuccess();
  }
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    return ::testing::AssertionFailure()
           << a.toString() << a.sizes() << " against " << b.toString() << b.sizes();
  }
  const auto bytes = [](const at::Tensor& t) {
    return t.detach().to(at::kCPU).contiguous().reshape({-1}).view(at::kByte);
  };
  if (a.numel() == 0 || torch::equal(bytes(a), bytes(b))) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "differ by at most "
         << (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs().max().item<double>();
}

inline void expect_bitwise_equal(const std::vector<at::Tensor>& a,
                                 const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(a[i], b[i])) << "tensor " << i;
  }
}

}  // namespace reprise::testing
