// Quantisation on the CPU, to the bits of bitsandbytes: the same operations in float32, in the same
// order. Two of them are worth knowing: a number between two codes goes to the lower one if it is
// exactly in the middle, and the last block, if it is shorter than the others, divides by its scale
// where the others multiply by the reciprocal.
#include "quant/quantized_weight.h"
#include "quant/tables.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace reprise::quant {

namespace {

constexpr float kLeastScale = 1e-38F;  // a block of zeros is divided by it
constexpr int64_t kGrainBlocks = 256;

using Bounds = std::array<float, kCodes4 - 1>;

// Numbers up to the i-th bound go to the i-th code in ascending order.
Bounds bounds_of(QuantFormat format) {
  const auto& numbers = numbers_of(format);
  const auto& order = order_of(format);
  Bounds bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = (numbers[order[i]] + numbers[order[i + 1]]) / 2;
  }
  return bounds;
}

float largest(const float* values, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::abs(values[i]));
  }
  return most;
}

/// Codes of one block.
class Encoder {
 public:
  explicit Encoder(QuantFormat format) : bounds_(bounds_of(format)), order_(order_of(format)) {}

  uint8_t code(float number) const {
    int below = 0;
    for (const float bound : bounds_) {
      below += bound < number ? 1 : 0;
    }
    return order_[static_cast<size_t>(below)];
  }

  // `fraction` maps a value to [-1, 1].
  template <class Fraction>
  void pack(uint8_t* bytes, const float* values, int64_t count, const Fraction& fraction) const {
    for (int64_t i = 0; i < count; i += 2) {
      const uint8_t first = code(fraction(values[i]));
      const uint8_t second = code(i + 1 < count ? fraction(values[i + 1]) : 0);
      bytes[i / 2] = static_cast<uint8_t>(first << 4 | second);
    }
  }

 private:
  Bounds bounds_;
  std::array<uint8_t, kCodes4> order_;
};

void pack_blocks(QuantizedWeight& weight, const at::Tensor& floats) {
  const int64_t count = floats.numel(), block = weight.scheme.block;
  const auto* const values = floats.const_data_ptr<float>();
  auto* const bytes = weight.packed.mutable_data_ptr<uint8_t>();
  auto* const scales = weight.scales.mutable_data_ptr<float>();
  const Encoder encoder(weight.scheme.format);
  at::parallel_for(0, weight.blocks(), kGrainBlocks, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i * block, length = std::min(block, count - start);
      const float most = largest(values + start, length);
      const float scale = std::max(most, kLeastScale);
      const bool is_whole = length == block;
      scales[i] = is_whole ? most : scale;
      const float reciprocal = 1 / scale;
      encoder.pack(bytes + start / 2, values + start, length, [&](float value) {
        return std::clamp(is_whole ? value * reciprocal : value / scale, -1.0F, 1.0F);
      });
    }
  });
}

// The code of a number in [-1, 1]. It is first rounded to one of 65536 steps.
uint8_t nearest_in(const std::array<float, kCodes8 - 1>& bounds, float number) {
  constexpr float kSteps = 65535;
  const auto step =
      static_cast<uint16_t>((std::clamp(number, -1.0F, 1.0F) + 1.0F) * 0.5F * kSteps + 0.5F);
  const float rounded = -1.0F + 2.0F * static_cast<float>(step) / kSteps;
  return static_cast<uint8_t>(std::lower_bound(bounds.begin(), bounds.end(), rounded) -
                              bounds.begin());
}

// Replaces the scales by 8-bit codes of what they differ from their mean.
void nest(QuantizedWeight& weight) {
  const auto mean = weight.scales.mean();
  const auto centred = weight.scales - mean;
  weight.offset = mean.item<float>();
  weight.nested_map = dynamic_map();
  const auto* const map = weight.nested_map.const_data_ptr<float>();
  std::array<float, kCodes8 - 1> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = 0.5F * (map[i] + map[i + 1]);
  }
  const int64_t count = centred.numel(), blocks = (count + kNestedBlock - 1) / kNestedBlock;
  const auto codes = at::zeros({count}, at::kByte);
  weight.nested_scales = at::empty({blocks}, at::kFloat);
  const auto* const values = centred.const_data_ptr<float>();
  auto* const bytes = codes.mutable_data_ptr<uint8_t>();
  auto* const nested = weight.nested_scales.mutable_data_ptr<float>();
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t start = block * kNestedBlock, end = std::min(count, start + kNestedBlock);
    const float most = largest(values + start, end - start);
    nested[block] = most;
    const float reciprocal = 1 / most;
    for (int64_t i = start; i < end && most > 0; ++i) {
      bytes[i] = nearest_in(bounds, values[i] * reciprocal);
    }
  }
  weight.scales = codes;
}

void check_finite(const at::Tensor& matrix, QuantFormat format) {
  const double most = matrix.numel() == 0 ? 0 : matrix.abs().max().item<double>();
  TORCH_CHECK(std::isfinite(most),
              "[quant] expected finite weights, found ",
              most,
              ": they cannot be quantised.");
  constexpr double kMostHalf = 65504;
  TORCH_CHECK(format != QuantFormat::Int8 || most <= kMostHalf,
              "[quant] expected weights in the range of float16 for int8, found ",
              most,
              ": quantise to nf4 instead.");
}

// Row by row, from float16.
void round_rows(QuantizedWeight& weight, const at::Tensor& matrix) {
  const auto halves = matrix.to(at::kHalf);
  weight.scales = halves.abs().amax(1).to(at::kFloat);
  const auto factors = weight.scales.reciprocal().mul_(kInt8Most).unsqueeze(1);
  const auto rounded = at::round(halves.to(at::kFloat) * factors);
  weight.packed = at::nan_to_num(rounded, 0).to(at::kChar);  // of a row of zeros
}

void check_matrix(const at::Tensor& matrix) {
  const auto type = matrix.scalar_type();
  TORCH_CHECK(matrix.dim() == 2 && (matrix.is_cpu() || matrix.is_meta()) &&
                  (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf),
              "[quant] expected a matrix of float32, bfloat16 or float16 on the CPU, got ",
              c10::toString(type),
              " ",
              matrix.sizes(),
              " on ",
              matrix.device());
}

// Tensors without values. Scales are float32 until they are nested.
QuantizedWeight empty_weight(const at::Tensor& matrix, const QuantScheme& scheme) {
  QuantizedWeight weight{.scheme = scheme,
                         .out = matrix.size(0),
                         .in = matrix.size(1),
                         .source_type = matrix.scalar_type()};
  const auto empty = [&](at::IntArrayRef sizes, at::ScalarType type) {
    return at::empty(sizes, matrix.options().dtype(type).requires_grad(false));
  };
  if (scheme.format == QuantFormat::Int8) {
    weight.packed = empty({weight.out, weight.in}, at::kChar);
    weight.scales = empty({weight.out}, at::kFloat);
    return weight;
  }
  weight.packed = empty({(matrix.numel() + 1) / 2, 1}, at::kByte);
  weight.scales = empty({weight.blocks()}, at::kFloat);
  return weight;
}

// What nest() makes, without values.
void plan_nested(QuantizedWeight& weight) {
  const auto floats = weight.scales.options();
  weight.nested_scales = at::empty({(weight.blocks() + kNestedBlock - 1) / kNestedBlock}, floats);
  weight.nested_map = at::empty({kCodes8}, floats);
  weight.scales = at::empty({weight.blocks()}, floats.dtype(at::kByte));
}

}  // namespace

QuantizedWeight quantize(const at::Tensor& matrix, const QuantScheme& scheme) {
  const at::NoGradGuard no_grad;
  check_scheme(scheme);
  check_matrix(matrix);
  auto weight = empty_weight(matrix, scheme);
  if (matrix.is_meta()) {
    if (scheme.double_quant) {
      plan_nested(weight);
    }
    return weight;
  }
  check_finite(matrix, scheme.format);
  if (scheme.format == QuantFormat::Int8) {
    round_rows(weight, matrix);
    return weight;
  }
  pack_blocks(weight, matrix.to(at::kFloat).contiguous());
  if (scheme.double_quant) {
    nest(weight);
  }
  return weight;
}

}  // namespace reprise::quant
