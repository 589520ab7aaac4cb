// One of the alternatives shows what may be gone at backward.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

#include <variant>
#include <vector>

at::Tensor reshaped(const at::Tensor& x, const std::vector<int64_t>& sizes) {
#ifdef REPRISE_VALID
  using Sizes = std::variant<int64_t, std::vector<int64_t>>;
#else
  using Sizes = std::variant<int64_t, at::IntArrayRef>;
#endif
  return reprise::checkpoint(
      [](const at::Tensor& t, const Sizes& s) { return t.view(std::get<1>(s)); }, x, Sizes(sizes));
}
