#include "model/layers/rope.h"

#include "ops/rope.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

namespace reprise {

namespace {

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

at::Tensor inverse_frequencies(const RopeConfig& config, at::Device device) {
  // Computed on the device: a copy from the host would synchronise with it.
  const auto exponents =
      at::arange(0, config.dims, 2, at::TensorOptions(at::kFloat).device(device)) /
      static_cast<double>(config.dims);
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
  return ops::rope(
      x,
      cos,
      sin,
      {.dims = config.dims, .interleaved = config.pairing == RopeConfig::Pairing::Neighbours});
}

}  // namespace reprise
