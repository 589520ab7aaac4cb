// And of the callable.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

#include <memory>

at::Tensor scaled(const at::Tensor& x) {
#ifdef REPRISE_VALID
  auto factor = std::make_shared<double>(2);
#else
  auto factor = std::make_unique<double>(2);
#endif
  return reprise::checkpoint([f = std::move(factor)](const at::Tensor& t) { return t * *f; }, x);
}
