// So does an OptionalArrayRef, the type of `dim` in many signatures.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>
#include <vector>

at::Tensor summed(const at::Tensor& x) {
  const std::vector<int64_t> dims{0, 1};
#ifdef REPRISE_VALID
  const std::optional<std::vector<int64_t>> argument = dims;
#else
  const at::OptionalIntArrayRef argument = dims;
#endif
  return reprise::checkpoint(
      [](const at::Tensor& t, const auto& d) { return t.sum(*d); }, x, argument);
}
