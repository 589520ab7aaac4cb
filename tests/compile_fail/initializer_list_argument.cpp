// An initializer_list does not own its elements.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <vector>

at::Tensor summed(const at::Tensor& x) {
#ifdef REPRISE_VALID
  const std::vector<int64_t> dims{0, 1};
#else
  const std::initializer_list<int64_t> dims{0, 1};
#endif
  return reprise::checkpoint(
      [](const at::Tensor& t, const auto& d) { return t.sum(at::IntArrayRef(d)); }, x, dims);
}
