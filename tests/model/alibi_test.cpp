// ALiBi: transformers' slopes and rounding, and positions that padding and documents do not move.
#include "model/layers/alibi.h"
#include "model/layers/attention_mask.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace reprise {
namespace {

ModelConfig with_heads(int64_t heads, const Alibi& alibi) {
  ModelConfig config;
  config.heads = heads;
  config.head_dim = 16;
  config.alibi = alibi;
  return config;
}

std::vector<float> biases(const at::Tensor& tensor) {
  const auto values = tensor.to(at::kFloat).flatten().contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

// The bias of position 1 is the slope.
std::vector<float> slopes(int64_t heads) {
  return biases(alibi_bias(with_heads(heads, {}), at::ones({1, 1}, at::kLong), at::kFloat));
}

TEST(Alibi, HasTheSlopesOfThePaper) {
  EXPECT_EQ(slopes(4), (std::vector<float>{0.25F, 0.0625F, 0x1p-6F, 0x1p-8F}));
  // Not a power of two: those of the next smaller one, then every other of the next larger one.
  const auto six = slopes(6);
  EXPECT_EQ(std::vector<float>(six.begin(), six.begin() + 4), slopes(4));
  EXPECT_EQ(six[4], slopes(8)[0]);
  EXPECT_EQ(six[5], slopes(8)[2]);
  EXPECT_EQ(slopes(1), std::vector<float>{0x1p-8F});
}

TEST(Alibi, IsRoundedAsInTheModelsOwnCode) {
  const auto positions = at::tensor({3, 1001}, at::kLong).unsqueeze(0);
  const auto of_nine = [&](const Alibi& alibi, at::ScalarType type) {
    return biases(alibi_bias(with_heads(9, alibi), positions, type).select(1, 8));
  };
  const float slope = std::sqrt(0.5F);  // of the ninth head
  EXPECT_EQ(of_nine({}, at::kFloat), (std::vector<float>{3 * slope, 1001 * slope}));
  // BLOOM rounds the product to the model's type, Falcon slope, position and product to bfloat16;
  // then it divides by the square root of the head size.
  EXPECT_EQ(of_nine({}, at::kBFloat16), (std::vector<float>{2.125F, 708}));
  const Alibi falcon{.in_bfloat16 = true, .is_scaled = true};
  EXPECT_EQ(of_nine(falcon, at::kFloat), (std::vector<float>{2.125F / 4, 708.0F / 4}));
}

TEST(AttendedPositions, AreThoseOfRowsAndDocumentsAlone) {
  ModelInput input;
  input.input_ids = at::zeros({2, 5}, at::kLong);
  input.attention_mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong).view({2, 5});
  const auto expected = at::tensor({-1, -1, 0, 1, 2, 0, 1, 2, 3, -1}, at::kLong).view({2, 5});
  EXPECT_TRUE(at::equal(attended_positions(input, 0), expected));
  input.document_ids = at::tensor({7, 7, 7, 7, 8, 0, 0, 4, 4, 4}, at::kLong).view({2, 5});
  const auto by_document = at::tensor({-1, -1, 0, 1, 0, 0, 1, 0, 1, -1}, at::kLong).view({2, 5});
  EXPECT_TRUE(at::equal(attended_positions(input, 0), by_document));
  EXPECT_TRUE(at::equal(positions_of(input, 0, /*skips_padding=*/true), by_document));
  // New tokens after a cached past, of which one row has two tokens of padding.
  ModelInput next;
  next.input_ids = at::zeros({2, 1}, at::kLong);
  next.attention_mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 4});
  EXPECT_TRUE(at::equal(positions_of(next, 3, /*skips_padding=*/true),
                        at::tensor({1, 3}, at::kLong).view({2, 1})));
}

}  // namespace
}  // namespace reprise
