// Early stop unwinds the callable with an exception.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

at::Tensor doubled(const at::Tensor& x) {
#ifdef REPRISE_VALID
  return reprise::checkpoint([](const at::Tensor& t) { return t.mul(2); }, x);
#else
  return reprise::checkpoint([](const at::Tensor& t) noexcept { return t.mul(2); }, x);
#endif
}
