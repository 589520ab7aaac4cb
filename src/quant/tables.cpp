#include "quant/tables.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprise {

const char* name_of(QuantFormat format) {
  switch (format) {
    case QuantFormat::Nf4:
      return "nf4";
    case QuantFormat::Fp4:
      return "fp4";
    case QuantFormat::Int8:
      break;
  }
  return "int8";
}

void check_scheme(const QuantScheme& scheme) {
  constexpr int64_t kLeast = 32, kMost = 4096;
  const int64_t block = scheme.block;
  TORCH_CHECK(block >= kLeast && block <= kMost && (block & (block - 1)) == 0,
              "[quant] expected blocks of 32, 64, 128, 256, 512, 1024, 2048 or 4096 values, got ",
              block);
  TORCH_CHECK(scheme.format != QuantFormat::Int8 || !scheme.double_quant,
              "[quant] expected int8 without double quantisation: it has one scale for a row, "
              "which is float32.");
}

namespace quant {

at::Tensor dynamic_map() {
  constexpr int kExponents = 7;
  constexpr double kBase = 10;
  const at::NoGradGuard no_grad;
  std::vector<float> numbers{0, 1};
  numbers.reserve(kCodes8);
  for (int i = 0; i < kExponents; ++i) {
    const auto bounds = at::linspace(0.1, 1, (int64_t{1} << i) + 1, at::kFloat);
    const auto means = (bounds.slice(0, 0, -1) + bounds.slice(0, 1)) / 2;
    const auto scaled = means * std::pow(kBase, i - (kExponents - 1));
    for (int64_t k = 0; k < scaled.numel(); ++k) {
      numbers.push_back(scaled[k].item<float>());
      numbers.push_back(-scaled[k].item<float>());
    }
  }
  TORCH_INTERNAL_ASSERT(numbers.size() == kCodes8);
  std::sort(numbers.begin(), numbers.end());
  return at::tensor(numbers, at::kFloat);
}

}  // namespace quant

}  // namespace reprise
