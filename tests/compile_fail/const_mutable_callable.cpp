// A callable that changes itself cannot be called through a const variable.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

at::Tensor scaled(const at::Tensor& x) {
  auto fn = [calls = 0](const at::Tensor& t) mutable { return t * ++calls; };
#ifdef REPRISE_VALID
  auto& callable = fn;
#else
  const auto& callable = fn;
#endif
  return reprise::checkpoint(callable, x);
}
