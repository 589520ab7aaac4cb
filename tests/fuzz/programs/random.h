// The tester's own random numbers: the same for a seed on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  /// splitmix64.
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  size_t below(size_t bound) { return bound == 0 ? 0 : next() % bound; }
  /// From `low` to `high`, both included.
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<size_t>(high - low + 1)));
  }
  /// True in `percent` of all cases.
  bool chance(int percent) { return below(100) < static_cast<size_t>(percent); }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace reprise::fuzz
