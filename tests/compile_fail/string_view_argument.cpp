// A string_view shows what may be gone at backward.
#include <reprise/checkpoint.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

at::Tensor scaled(const at::Tensor& x, const std::string& name) {
#ifdef REPRISE_VALID
  const std::string argument = name;
#else
  const std::string_view argument = name;
#endif
  return reprise::checkpoint(
      [](const at::Tensor& t, std::string_view s) { return t * static_cast<double>(s.size()); },
      x,
      argument);
}
