// Looking for a string in others. The time is linear in both, whatever a template looks for where:
// a search that begins anew at each place would let it take the product.
#pragma once

#include "text/template/runtime.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace reprise::jinja {

class Substring {
 public:
  enum class Direction { Forward, Backward };

  /// Keeps views of what it is given. The time taken is counted as steps.
  Substring(Runtime& runtime, std::string_view wanted, Direction direction = Direction::Forward);

  /// Where the first occurrence (searching backward: the last) begins, or npos.
  size_t find(std::string_view text) const;

 private:
  char at(std::string_view text, size_t index) const;

  Runtime& runtime_;
  std::string_view wanted_;
  Direction direction_;
  /// By length of a matched beginning: how much of it is matched still if the next byte differs.
  std::vector<size_t> shorter_;
};

}  // namespace reprise::jinja
