// Forward and recompute each need a copy of every argument.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

#include <memory>

at::Tensor scaled(const at::Tensor& x) {
#ifdef REPRISE_VALID
  auto factor = std::make_shared<double>(2);
#else
  auto factor = std::make_unique<double>(2);
#endif
  return reprise::checkpoint(
      [](const at::Tensor& t, const auto& f) { return t * *f; }, x, std::move(factor));
}
