// Quantised weights: the bits of bitsandbytes, the bytes they take, and what cannot be quantised.
#include "quant/weight_case.h"
#include "support/bitwise.h"
#include "support/error_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace reprise::quant {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::message_of;

TEST(Quantize, GivesTheBitsOfBitsandbytes) {
  const auto cases = testing::weight_cases();
  ASSERT_EQ(cases.size(), 9);
  for (const auto& expected : cases) {
    const auto weight = quantize(expected.input, expected.weight.scheme);
    EXPECT_TRUE(bitwise_equal(weight.packed, expected.weight.packed)) << expected.name;
    EXPECT_TRUE(bitwise_equal(weight.scales, expected.weight.scales)) << expected.name;
    EXPECT_TRUE(bitwise_equal(weight.nested_scales, expected.weight.nested_scales))
        << expected.name;
    EXPECT_TRUE(bitwise_equal(weight.nested_map, expected.weight.nested_map)) << expected.name;
    EXPECT_EQ(weight.offset, expected.weight.offset) << expected.name;
    EXPECT_NO_THROW(check(weight, expected.name));
    EXPECT_NO_THROW(check(expected.weight, expected.name));
  }
}

TEST(Quantize, TakesTheBytesThatTheFormatsPromise) {
  const auto matrix = torch::randn({1024, 1024});
  const auto bits = [&](const QuantScheme& scheme) {
    return 8.0 * static_cast<double>(quantize(matrix, scheme).bytes()) / (1024.0 * 1024.0);
  };
  EXPECT_NEAR(bits({.format = QuantFormat::Nf4}), 4.5, 1e-6);
  EXPECT_NEAR(bits({.format = QuantFormat::Nf4, .double_quant = true}), 4.127, 0.01);
  EXPECT_NEAR(bits({.format = QuantFormat::Int8}), 8.03125, 1e-6);
}

TEST(Quantize, OfAMetaTensorTakesTheSameBytes) {
  for (const auto& weight : testing::random_weights(33, 70)) {
    const auto planned =
        quantize(torch::empty({33, 70}, torch::device(torch::kMeta)), weight.scheme);
    EXPECT_TRUE(planned.packed.is_meta());
    EXPECT_EQ(planned.bytes(), weight.bytes()) << testing::name_of(weight);
    EXPECT_NO_THROW(check(planned, "planned"));
  }
}

TEST(Quantize, RefusesWhatIsNotFinite) {
  for (const double value : {std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    auto matrix = torch::randn({8, 8});
    matrix[2][3] = value;
    for (const auto format : {QuantFormat::Nf4, QuantFormat::Fp4, QuantFormat::Int8}) {
      EXPECT_TRUE(contains(message_of<c10::Error>([&] { quantize(matrix, {.format = format}); }),
                           "expected finite weights"));
    }
  }
  EXPECT_TRUE(contains(message_of<c10::Error>([] {
                         quantize(torch::full({8, 8}, 1e5), {.format = QuantFormat::Int8});
                       }),
                       "in the range of float16"));
}

TEST(Quantize, RefusesSchemesThatBitsandbytesDoesNotHave) {
  for (const int64_t block : {0, -64, 16, 48, 8192}) {
    EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                           quantize(torch::randn({8, 8}), {.block = block});
                         }),
                         "expected blocks of 32"));
  }
  EXPECT_TRUE(contains(
      message_of<c10::Error>([] {
        quantize(torch::randn({8, 8}), {.format = QuantFormat::Int8, .double_quant = true});
      }),
      "without double quantisation"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] {
                         quantize(torch::randn({8, 8}, torch::kDouble), {});
                       }),
                       "float32, bfloat16 or float16"));
}

TEST(QuantizedWeights, MustFitTheirSizes) {
  const auto refused = [](const QuantizedWeight& weight, const std::string& part) {
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { check(weight, "w"); }), part));
  };
  const auto weights = testing::random_weights(8, 24);
  auto weight = weights[1];
  weight.packed = weight.packed.slice(0, 1);
  refused(weight, "w: expected Byte [96, 1], found Byte [95, 1]");
  weight = weights[1];
  weight.scales = weight.scales.slice(0, 1);
  refused(weight, "w.absmax: expected Byte [3], found Byte [2]");
  weight = weights[1];
  weight.nested_scales = at::Tensor();
  refused(weight, "w.absmax: expected Float [3]");
  weight = weights[1];
  weight.nested_map = weight.nested_map.slice(0, 1);
  refused(weight, "w.nested_quant_map: expected Float [256]");
  weight = weights[3];
  weight.scales = weight.scales.slice(0, 1);
  refused(weight, "(SCB): expected Float [8], found Float [7]");
}

}  // namespace
}  // namespace reprise::quant
