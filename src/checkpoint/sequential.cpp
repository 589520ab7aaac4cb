// How checkpoint_sequential divides a chain of functions into segments.
#include <reprise/checkpoint.h>

#include <c10/util/Exception.h>

namespace reprise::detail {

std::vector<size_t> segment_starts(size_t count, size_t segments) {
  TORCH_CHECK(count > 0, "[reprise] checkpoint_sequential needs at least one function.");
  TORCH_CHECK(segments >= 1 && segments <= count,
              "[reprise] checkpoint_sequential: cannot cut ",
              count,
              " functions into ",
              segments,
              " segments; choose 1 to ",
              count,
              ".");
  std::vector<size_t> starts;
  for (size_t i = 0; i < segments; ++i) {
    starts.push_back(i * (count / segments));
  }
  starts.push_back(count);
  return starts;
}

}  // namespace reprise::detail
