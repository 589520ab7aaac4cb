// Bitwise comparison of tensors, and error texts.
#pragma once

#include "support/tensors.h"

#include <gtest/gtest.h>

#include <string>
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

/// The text of the Error that `fn` throws; fails if it throws none.
template <class Error, class Fn>
std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos
             ? ::testing::AssertionSuccess()
             : ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace reprise::testing
