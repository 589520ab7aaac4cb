// Substring search in linear time. A naive search takes the product of both lengths, which a
// template could exploit.
#pragma once

#include "jinja/runtime.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace reprise::jinja {

class SubstringSearch {
 public:
  enum class Direction { Forward, Backward };

  /// Keeps a view of `wanted`. The work is counted as steps.
  SubstringSearch(Runtime& runtime,
                  std::string_view wanted,
                  Direction direction = Direction::Forward);

  /// The start of the first occurrence (backward: the last), or npos.
  size_t find(std::string_view text) const;

 private:
  char at(std::string_view text, size_t index) const;

  Runtime& runtime_;
  std::string_view wanted_;
  Direction direction_;
  /// KMP failure function: for each matched length, the length still matched after a mismatch.
  std::vector<size_t> shorter_;
};

}  // namespace reprise::jinja
