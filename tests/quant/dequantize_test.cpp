// The operator that fills a matrix from a quantised weight: its kernel against bitsandbytes, and
// against its reference to the last bit.
#include "quant/dequantize.h"
#include "quant/weight_case.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/error_text.h"

#include <reprise/ops/cuda_kernels.h>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace reprise::quant {
namespace {

using testing::bitwise_equal;

at::Tensor by_reference(const QuantizedWeight& weight, at::ScalarType type) {
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  auto out = torch::empty({weight.out, weight.in}, type);
  reference::dequantize_(out,
                         weight.packed,
                         weight.scales,
                         optional(weight.nested_scales),
                         optional(weight.nested_map),
                         weight.offset,
                         static_cast<int64_t>(weight.scheme.format),
                         weight.scheme.block);
  return out;
}

// Values, not bits: bitsandbytes has both zeros in fp4.
TEST(Dequantize, GivesTheValuesOfBitsandbytes) {
  for (const auto& expected : testing::weight_cases()) {
    EXPECT_TRUE(torch::equal(dequantize(expected.weight, at::kFloat), expected.output))
        << expected.name;
  }
}

TEST(Dequantize, KernelAndReferenceGiveTheSameBits) {
  for (const auto& sizes : {std::pair{5, 7}, {64, 64}, {300, 129}, {1, 1}}) {
    for (const auto& weight : testing::random_weights(sizes.first, sizes.second)) {
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
        EXPECT_TRUE(bitwise_equal(dequantize(weight, type), by_reference(weight, type)))
            << testing::name_of(weight) << " " << c10::toString(type) << " " << sizes.first;
      }
    }
  }
}

TEST(Dequantize, OnAGpuGivesTheBitsOfTheCpu) {
  REPRISE_REQUIRE_CUDA();
  ASSERT_TRUE(load_cuda_kernels()) << missing_cuda_kernels();
  for (const auto& sizes : {std::pair{5, 7}, {64, 64}, {300, 129}, {1, 1}}) {
    for (const auto& weight : testing::random_weights(sizes.first, sizes.second)) {
      const auto on_gpu = weight.to(at::kCUDA);
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
        EXPECT_TRUE(bitwise_equal(dequantize(on_gpu, type).cpu(), dequantize(weight, type)))
            << testing::name_of(weight) << " " << c10::toString(type) << " " << sizes.first;
      }
    }
  }
}

TEST(Dequantize, RoundsTheFloat32ValueOnce) {
  for (const auto& weight : testing::random_weights(20, 50)) {
    EXPECT_TRUE(bitwise_equal(dequantize(weight, at::kBFloat16),
                              dequantize(weight, at::kFloat).to(at::kBFloat16)));
  }
}

TEST(Dequantize, DoesNotDependOnThreads) {
  const int threads = at::get_num_threads();
  for (const auto& weight : testing::random_weights(400, 300)) {
    const auto all = dequantize(weight, at::kFloat);
    at::set_num_threads(1);
    EXPECT_TRUE(bitwise_equal(dequantize(weight, at::kFloat), all));
    at::set_num_threads(threads);
  }
}

// Half a step of the coarsest codes, relative to the largest value of a block.
TEST(Dequantize, IsNearTheWeight) {
  torch::manual_seed(3);
  const auto matrix = torch::randn({33, 70});
  const auto error = [&](const QuantScheme& scheme) {
    const auto weight = quantize(matrix, scheme);
    return ((dequantize(weight, at::kFloat) - matrix).norm() / matrix.norm()).item<double>();
  };
  EXPECT_LT(error({.format = QuantFormat::Int8}), 0.01);
  EXPECT_LT(error({.format = QuantFormat::Nf4}), 0.12);
  EXPECT_LT(error({.format = QuantFormat::Nf4, .double_quant = true}), 0.12);
  EXPECT_LT(error({.format = QuantFormat::Fp4}), 0.16);
}

TEST(Dequantize, RefusesAMatrixOfAnotherShape) {
  const auto weight = testing::random_weights(8, 24).front();
  const auto refused = [&](at::Tensor out) {
    EXPECT_TRUE(
        testing::contains(testing::message_of<c10::Error>([&] { dequantize_into(out, weight); }),
                          "[dequantize] expected a contiguous matrix [8, 24]"));
  };
  refused(torch::empty({24, 8}));
  refused(torch::empty({24, 8}).t());
  refused(torch::empty({8, 24}, torch::kInt));
  refused(torch::empty({8, 24}, torch::device(torch::kMeta)));
}

}  // namespace
}  // namespace reprise::quant
