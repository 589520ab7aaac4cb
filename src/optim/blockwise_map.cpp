#include "optim/blockwise_map.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprise {
namespace {

constexpr int kExponents = 7;  // powers of ten
constexpr int64_t kLastPoint = 65535;

// create_dynamic_map of bitsandbytes: the smallest power of ten has one (unsigned: two) values, and
// each greater one twice as many, in the middles of equal parts of [0.1, 1].
at::Tensor dynamic_values(bool is_signed) {
  std::vector<float> values = {0, 1};
  for (int i = 0; i < kExponents; ++i) {
    const int64_t parts = int64_t{1} << (is_signed ? i : i + 1);
    const at::Tensor bounds = at::linspace(0.1, 1, parts + 1, at::kFloat);
    const at::Tensor middles = (bounds.narrow(0, 0, parts) + bounds.narrow(0, 1, parts)) / 2.0;
    const at::Tensor scaled = middles * std::pow(10.0, i + 1 - kExponents);
    for (int64_t k = 0; k < parts; ++k) {
      const auto value = scaled[k].item<float>();
      values.push_back(value);
      if (is_signed) {
        values.push_back(-value);
      }
    }
  }
  std::sort(values.begin(), values.end());
  return at::tensor(values);
}

at::Tensor nearest_codes(const at::Tensor& values) {
  const auto* begin = values.const_data_ptr<float>();
  const auto* end = begin + values.numel();
  std::vector<uint8_t> codes;
  codes.reserve(kLastPoint + 1);
  for (int64_t i = 0; i <= kLastPoint; ++i) {
    const float point = static_cast<float>(2 * i) / static_cast<float>(kLastPoint) - 1.0F;
    const auto* above = std::clamp(std::lower_bound(begin, end, point), begin + 1, end - 1);
    const bool is_below_nearer = std::abs(point - above[-1]) <= std::abs(point - above[0]);
    codes.push_back(static_cast<uint8_t>(above - begin - (is_below_nearer ? 1 : 0)));
  }
  return at::tensor(codes, at::kByte);
}

/// Multiplies every block by its factor.
void scale_blocks(const at::Tensor& values, const at::Tensor& factors) {
  constexpr int64_t kBlock = BlockwiseMap::kBlock;
  const int64_t whole = values.numel() / kBlock;
  values.narrow(0, 0, whole * kBlock)
      .view({whole, kBlock})
      .mul_(factors.narrow(0, 0, whole).unsqueeze(1));
  const int64_t rest = values.numel() - whole * kBlock;
  if (rest > 0) {
    values.narrow(0, whole * kBlock, rest).mul_(factors.narrow(0, whole, 1));
  }
}

void take_maxima(const at::Tensor& values, const at::Tensor& maxima) {
  constexpr int64_t kBlock = BlockwiseMap::kBlock;
  const at::Tensor sizes = values.abs();
  const int64_t whole = values.numel() / kBlock;
  if (whole > 0) {
    maxima.narrow(0, 0, whole)
        .copy_(sizes.narrow(0, 0, whole * kBlock).view({whole, kBlock}).amax(1));
  }
  const int64_t rest = values.numel() - whole * kBlock;
  if (rest > 0) {
    maxima.narrow(0, whole, 1).copy_(sizes.narrow(0, whole * kBlock, rest).amax().view({1}));
  }
}

}  // namespace

BlockwiseMap::BlockwiseMap(bool is_signed, const at::Device& device) {
  const at::Tensor values = dynamic_values(is_signed);
  values_ = values.to(device);
  nearest_ = nearest_codes(values).to(device);
}

at::Tensor BlockwiseMap::decode(const at::Tensor& codes, const at::Tensor& maxima) const {
  at::Tensor values = values_.index_select(0, codes.to(at::kInt));
  scale_blocks(values, maxima);
  return values;
}

// A block of zeros divides 0 by 0: code 0, which its maximum of 0 makes 0 again.
void BlockwiseMap::encode(const at::Tensor& values,
                          const at::Tensor& codes,
                          const at::Tensor& maxima) const {
  constexpr double kHalf = 0.5 * static_cast<double>(kLastPoint);
  take_maxima(values, maxima);
  scale_blocks(values, maxima.reciprocal());
  values.add_(1).mul_(kHalf).add_(0.5);
  values.nan_to_num_(/*nan=*/0.0).clamp_(0, kLastPoint);
  codes.copy_(nearest_.index_select(0, values.to(at::kInt)));
}

}  // namespace reprise
