#include "model/layers/alibi.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace reprise {

namespace {

// The powers of the slope that belongs to this number of heads, itself a power of two.
at::Tensor powers(int64_t heads, int64_t count, int64_t step, const at::TensorOptions& options) {
  const double exponent = std::exp2(3 - std::log2(static_cast<double>(heads)));
  const auto base = at::full({}, std::exp2(-exponent), options);
  return at::pow(base, at::arange(1, 1 + count * step, step, options.dtype(at::kInt)));
}

// The slopes of the largest power of two that is no more than the heads, then every other one of
// the next power of two.
at::Tensor slopes_of(int64_t heads, const at::TensorOptions& options) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const auto first = powers(power, power, 1, options);
  return power == heads ? first : at::cat({first, powers(2 * power, heads - power, 2, options)});
}

}  // namespace

at::Tensor alibi_bias(const ModelConfig& config, const at::Tensor& positions, at::ScalarType type) {
  const auto counted = positions.clamp_min(0).unsqueeze(1);  // -1: padding
  auto slopes = slopes_of(config.heads, positions.options().dtype(at::kFloat)).unsqueeze(1);
  if (config.alibi->in_bfloat16) {
    slopes = slopes.to(at::kBFloat16);
  }
  const auto bias = (slopes * counted).to(type);
  return config.alibi->is_scaled ? bias / std::sqrt(static_cast<double>(config.head_dim)) : bias;
}

}  // namespace reprise
