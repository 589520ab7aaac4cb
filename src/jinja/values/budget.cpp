// The limits of a rendering.
#include "jinja/values/budget.h"

#include "jinja/values/value.h"

#include <algorithm>
#include <limits>

namespace reprise::jinja {

void Budget::fail_steps() const {
  throw Failure("runs for more than " + std::to_string(limits_.max_steps) +
                " steps; the template may not end, or needs a larger TemplateLimits::max_steps");
}

void Budget::charge(size_t bytes) {
  if (bytes > limits_.max_allocated - std::min(used_.allocated, limits_.max_allocated)) {
    throw Failure("needs more than " + std::to_string(limits_.max_allocated) +
                  " bytes for its values (TemplateLimits::max_allocated)");
  }
  used_.allocated += bytes;
}

void Budget::charge(size_t count, size_t size) {
  const bool overflows = size != 0 && count > std::numeric_limits<size_t>::max() / size;
  charge(overflows ? std::numeric_limits<size_t>::max() : count * size);
}

Budget::Nesting::Nesting(Budget& budget) : budget_(budget) {
  if (budget.depth_ >= budget.limits_.max_depth) {
    throw Failure("nested more than " + std::to_string(budget.limits_.max_depth) +
                  " deep (TemplateLimits::max_depth)");
  }
  ++budget.depth_;
}

bool is_same_text(Budget& budget, std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  budget.read(a.size());
  return a == b;
}

}  // namespace reprise::jinja
