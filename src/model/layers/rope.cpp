#include "model/layers/rope.h"

#include "model/layers/rope_frequencies.h"
#include "ops/rope.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace reprise {

RopeTables rope_tables(const RopeConfig& config, const at::Tensor& positions) {
  if (config.dims == 0) {
    return {};
  }
  const at::NoGradGuard no_grad;
  const auto angles = positions.to(at::kFloat).unsqueeze(-1) * rope_frequencies(config, positions);
  const auto scaled = [&](const at::Tensor& table) {
    return (config.attention_factor == 1 ? table : table * config.attention_factor).unsqueeze(1);
  };
  return {scaled(angles.cos()), scaled(angles.sin())};
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
