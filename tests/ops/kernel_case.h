// What tests of kernels share: random values on a GPU, memory that is poisoned, and bounds of their
// errors.
#pragma once

#include "ops/operator.h"
#include "ops/reference.h"
#include "support/devices.h"
#include "support/nan.h"
#include "support/tensors.h"

#include <reprise/ops/cuda_kernels.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::testing {

class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    REPRISE_REQUIRE_CUDA();
    ASSERT_TRUE(load_cuda_kernels()) << missing_cuda_kernels();
    torch::manual_seed(0);
  }

  // Freed blocks hold NaN, so what a kernel does not write shows.
  static void poison() {
    const auto block = torch::full({1 << 24}, kNaN, at::device(at::kCUDA).dtype(at::kFloat));
  }
};

inline const std::vector<at::ScalarType> kTypes{at::kFloat, at::kBFloat16, at::kHalf};

inline at::Tensor random_on_gpu(at::IntArrayRef sizes, at::ScalarType type) {
  return torch::randn(sizes, at::device(at::kCUDA).dtype(at::kFloat)).to(type);
}

inline at::Tensor wide(const at::Tensor& x) {
  return x.defined() ? x.to(at::kDouble) : x;
}

// |found - expected| against the largest value: rounding of the type alone.
inline void expect_close(const at::Tensor& found,
                         const at::Tensor& expected,
                         const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  const double roundoff = found.scalar_type() == at::kBFloat16 ? 0x1p-8
                          : found.scalar_type() == at::kHalf   ? 0x1p-10
                                                               : 2e-6;
  if (expected.numel() == 0) {
    return;
  }
  const auto scale = expected.abs().max().item<double>() + 1e-30;
  const auto error = (wide(found) - expected).abs().max().item<double>() / scale;
  EXPECT_LE(error, roundoff) << what;
}

template <class Function>
auto kernel(const char* name, Function*) {
  return ops::find_operator<Function>(name);
}

}  // namespace reprise::testing
