#include "model/rope.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

namespace reprise {

namespace {

// Llama 3.1 stretches only wavelengths that are long against the original context, with a smooth
// passage between.
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

at::Tensor inverse_frequencies(const RopeConfig& config, at::Device device) {
  const auto exponents =
      at::arange(0, config.dims, 2, at::kFloat).to(device) / static_cast<double>(config.dims);
  const auto frequencies = at::pow(config.theta, exponents).reciprocal();
  switch (config.scaling) {
    case RopeConfig::Scaling::None:
      break;
    case RopeConfig::Scaling::Linear:
      return frequencies / config.factor;
    case RopeConfig::Scaling::Llama3:
      return stretch_long_waves(config, frequencies);
  }
  return frequencies;
}

}  // namespace

RopeTables rope_tables(const RopeConfig& config, const at::Tensor& positions) {
  if (config.dims == 0) {
    return {};
  }
  const at::NoGradGuard no_grad;
  const auto angles =
      positions.to(at::kFloat).unsqueeze(-1) * inverse_frequencies(config, positions.device());
  return {angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)};
}

at::Tensor apply_rope(const RopeConfig& config,
                      const at::Tensor& x,
                      const at::Tensor& cos,
                      const at::Tensor& sin) {
  // The tables are float32, and so is what is computed with them: bfloat16 is rounded once.
  const auto turned = x.narrow(-1, 0, config.dims);
  at::Tensor result;
  if (config.pairing == RopeConfig::Pairing::Halves) {
    const auto halves = turned.chunk(2, -1);
    result = at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
  } else {
    const auto pairs = turned.unflatten(-1, {config.dims / 2, 2});
    const auto even = pairs.select(-1, 0), odd = pairs.select(-1, 1);
    result = at::stack({even * cos - odd * sin, odd * cos + even * sin}, -1).flatten(-2);
  }
  result = result.to(x.scalar_type());
  if (config.dims == x.size(-1)) {
    return result;
  }
  return at::cat({result, x.narrow(-1, config.dims, x.size(-1) - config.dims)}, -1);
}

}  // namespace reprise
