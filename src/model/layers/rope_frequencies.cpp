#include "model/layers/rope_frequencies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace reprise {

namespace {

at::TensorOptions on_device_of(const at::Tensor& positions) {
  return at::TensorOptions(at::kFloat).device(positions.device());
}

// theta^(0/whole), theta^(2/whole), …, one for each pair of `dims`. Computed on the device: a copy
// from the host would synchronise with it.
at::Tensor exponents(int64_t dims, int64_t whole, const at::Tensor& positions) {
  return at::arange(0, dims, 2, on_device_of(positions)) / static_cast<double>(whole);
}

at::Tensor unscaled(const RopeConfig& config, const at::Tensor& positions) {
  return at::pow(config.theta, exponents(config.dims, config.dims, positions)).reciprocal();
}

// Llama 3.1 stretches only wavelengths that are long compared to the original context, with a
// smooth transition.
at::Tensor stretch_long_waves(const RopeConfig& config, const at::Tensor& frequencies) {
  const auto original = static_cast<double>(config.original_positions);
  const auto wavelengths = 2 * std::numbers::pi / frequencies;
  const auto stretched = frequencies / config.factor;
  const auto smooth = (original / wavelengths - config.low_frequency_factor) /
                      (config.high_frequency_factor - config.low_frequency_factor);
  const auto between = (1 - smooth) * stretched + smooth * frequencies;
  const auto is_long = wavelengths > original / config.low_frequency_factor;
  const auto is_short = wavelengths < original / config.high_frequency_factor;
  return at::where(is_long, stretched, at::where(is_short, frequencies, between));
}

// The pair that turns so many times within the original context.
double pair_of(const RopeConfig& config, double rotations) {
  const auto original = static_cast<double>(config.original_positions);
  return static_cast<double>(config.dims) *
         std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(config.theta));
}

// Yarn leaves pairs that turn often as they are, stretches those that turn seldom, and goes from
// one to the other in between.
at::Tensor stretch_slow_pairs(const RopeConfig& config, const at::Tensor& frequencies) {
  double low = pair_of(config, config.fast_rotations),
         high = pair_of(config, config.slow_rotations);
  if (config.has_whole_bounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.dims - 1));
  constexpr double kLeastWidth = 0.001;  // of the transition
  const double width = high == low ? kLeastWidth : high - low;
  const auto share =
      ((at::arange(frequencies.numel(), frequencies.options()) - low) / width).clamp(0, 1);
  return frequencies / config.factor * share + frequencies * (1 - share);
}

// A larger base for rows that are longer than what the model was trained with.
at::Tensor with_larger_base(const RopeConfig& config, const at::Tensor& positions) {
  const auto trained = static_cast<double>(config.original_positions);
  const auto dims = static_cast<double>(config.dims);
  const auto length = (positions.max() + 1).to(at::kFloat).clamp_min(trained);
  const auto growth = config.factor * length / trained - (config.factor - 1);
  const auto base = config.theta * at::pow(growth, dims / (dims - 2));
  return at::pow(base, exponents(config.dims, config.dims, positions)).reciprocal();
}

// A divisor of its own for each frequency, and other ones for long rows. Scalars are written by
// kernels, where a tensor of the host's would be copied.
at::Tensor divided(const RopeConfig& config, const at::Tensor& positions) {
  const auto listed = [&](const std::vector<double>& factors) {
    auto tensor = at::empty({static_cast<int64_t>(factors.size())}, on_device_of(positions));
    for (size_t i = 0; i < factors.size(); ++i) {
      tensor.select(0, static_cast<int64_t>(i)).fill_(factors[i]);
    }
    return tensor;
  };
  const auto is_long = positions.max() + 1 > config.original_positions;
  const auto factors =
      at::where(is_long, listed(config.long_factors), listed(config.short_factors));
  return (factors * at::pow(config.theta, exponents(config.dims, config.dims, positions)))
      .reciprocal();
}

// The pairs that do not turn come last. Exponents count all pairs.
at::Tensor turning_in_part(const RopeConfig& config, const at::Tensor& positions) {
  auto frequencies = at::zeros({config.dims / 2}, on_device_of(positions));
  const auto turning = exponents(config.turning_dims, config.dims, positions);
  frequencies.narrow(0, 0, config.turning_dims / 2)
      .copy_(at::pow(config.theta, turning).reciprocal());
  return frequencies / config.factor;
}

}  // namespace

at::Tensor rope_frequencies(const RopeConfig& config, const at::Tensor& positions) {
  switch (config.scaling) {
    case RopeConfig::Scaling::None:
      break;
    case RopeConfig::Scaling::Linear:
      return unscaled(config, positions) / config.factor;
    case RopeConfig::Scaling::Dynamic:
      return with_larger_base(config, positions);
    case RopeConfig::Scaling::Yarn:
      return stretch_slow_pairs(config, unscaled(config, positions));
    case RopeConfig::Scaling::LongRope:
      return divided(config, positions);
    case RopeConfig::Scaling::Llama3:
      return stretch_long_waves(config, unscaled(config, positions));
    case RopeConfig::Scaling::Proportional:
      return turning_in_part(config, positions);
  }
  return unscaled(config, positions);
}

}  // namespace reprise
