// A stable sort that is safe for comparisons that are not an ordering.
#pragma once

#include "jinja/values/operators.h"

#include <algorithm>

namespace reprise::jinja {

enum class Direction { Up, Down };

/// Like Python's sorted(): stable, also in descending order. An own merge sort, because std::sort
/// may access memory out of bounds if `<` is not an ordering (NaN), and the comparison may throw.
template <class Key>
Values sort_by(Runtime& runtime, Values items, const Key& key, Direction direction) {
  struct Keyed {
    Value key;
    Value item;
  };
  std::vector<Keyed> sorted;
  runtime.step(items.size());
  runtime.charge(items.size(), 2 * sizeof(Keyed));
  sorted.reserve(items.size());
  for (Value& item : items) {
    Value computed = key(item);
    sorted.push_back({std::move(computed), std::move(item)});
  }
  const auto goes_first = [&](const Keyed& a, const Keyed& b) {
    return direction == Direction::Up ? is_less(runtime, a.key, b.key)
                                      : is_less(runtime, b.key, a.key);
  };
  std::vector<Keyed> merged(sorted.size());
  for (size_t width = 1; width < sorted.size(); width *= 2) {
    for (size_t start = 0; start < sorted.size(); start += 2 * width) {
      size_t left = start;
      const size_t middle = std::min(start + width, sorted.size());
      size_t right = middle;
      const size_t end = std::min(start + 2 * width, sorted.size());
      for (size_t to = start; to < end; ++to) {
        const bool take_right =
            left == middle || (right < end && goes_first(sorted[right], sorted[left]));
        merged[to] = std::move(take_right ? sorted[right++] : sorted[left++]);
      }
    }
    std::swap(sorted, merged);
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    items[i] = std::move(sorted[i].item);
  }
  return items;
}

}  // namespace reprise::jinja
