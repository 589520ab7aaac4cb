// A grid that thins the candidates for a rest as they are generated.
//
// A candidate that is dropped is within a bucket's width of a point that stays and is no slower.
// Points keep their exact numbers.
#pragma once

#include "plan/solve/rest.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise::planning {

/// A grid over peaks and, if there is a limit, host bytes. A bucket keeps its fastest point, and
/// its lowest so that thinning does not raise the least budget.
class Buckets {
 public:
  Buckets(int64_t lowest, int64_t highest, const RestSearch& search)
      : lowest_(lowest),
        host_limit_(search.host_limit.value_or(std::numeric_limits<int64_t>::max())),
        hosts_(search.host_limit ? std::clamp<size_t>(search.host_levels, 1, 1 + search.points / 2)
                                 : 1) {
    const size_t peaks = std::max<size_t>(1, search.points / 2 / hosts_);
    width_ = (highest - lowest) / static_cast<int64_t>(peaks) + 1;
    host_width_ = search.host_limit ? *search.host_limit / static_cast<int64_t>(hosts_) + 1 : 0;
    peaks_per_byte_ = 1 / static_cast<double>(width_);
    hosts_per_byte_ = search.host_limit ? 1 / static_cast<double>(host_width_) : 0;
    const size_t size = (peaks + 1) * hosts_;  // a quotient may round up to the end
    best_ns_.resize(size, std::numeric_limits<int64_t>::max());
    lowest_peak_.resize(size, std::numeric_limits<int64_t>::max());
    fastest_.resize(size);
    lowest_points_.resize(size);
  }

  /// Adds the unit before each point of the rest from `first` on. This is the solver's innermost
  /// loop; most candidates fail the last comparison.
  void add(const ChainUnit& unit, const Rest& rest, size_t first) {
    const RestPoint* points = rest.data();
    const int64_t* best_ns = best_ns_.data();
    const int64_t* lowest_peak = lowest_peak_.data();
    const size_t size = rest.size();
    for (size_t p = first; p < size; ++p) {
      const int64_t host = unit.moved_bytes + points[p].host;
      const int64_t ns = unit.ns + points[p].ns;
      const int64_t peak = std::max(unit.need_bytes, unit.held_bytes + points[p].peak);
      if (host > host_limit_) {
        continue;
      }
      const size_t bucket = bucket_of(peak, host);
      if (ns <= best_ns[bucket] || peak <= lowest_peak[bucket]) {
        add(joined(unit, rest, p), bucket);
      }
    }
  }

  Rest points() const {
    Rest result;
    for (size_t i = 0; i < fastest_.size(); ++i) {
      if (best_ns_[i] != std::numeric_limits<int64_t>::max()) {
        result.push_back(lowest_points_[i]);
        result.push_back(fastest_[i]);
      }
    }
    return result;
  }

  int64_t width() const { return width_ + 1; }  // quotients round
  int64_t host_width() const { return host_width_; }

 private:
  void add(const RestPoint& point, size_t bucket) {
    auto& fastest = fastest_[bucket];
    if (point.ns < best_ns_[bucket] || is_better(point, fastest) ||
        (!is_better(fastest, point) && point.peak < fastest.peak)) {
      fastest = point;
      best_ns_[bucket] = point.ns;
    }
    if (point.peak < lowest_peak_[bucket] ||
        (point.peak == lowest_peak_[bucket] && is_better(point, lowest_points_[bucket]))) {
      lowest_points_[bucket] = point;
      lowest_peak_[bucket] = point.peak;
    }
  }

  size_t bucket_of(int64_t peak, int64_t host) const {
    const auto row = static_cast<size_t>(static_cast<double>(peak - lowest_) * peaks_per_byte_);
    if (hosts_ == 1) {
      return row;
    }
    const auto column = static_cast<size_t>(static_cast<double>(host) * hosts_per_byte_);
    return row * hosts_ + std::min(column, hosts_ - 1);
  }

  const int64_t lowest_;
  const int64_t host_limit_;
  const size_t hosts_;
  int64_t width_ = 1;
  int64_t host_width_ = 0;
  double peaks_per_byte_ = 0;
  double hosts_per_byte_ = 0;
  std::vector<int64_t> best_ns_, lowest_peak_;  // of the points below, for dense access
  std::vector<RestPoint> fastest_, lowest_points_;
};

}  // namespace reprise::planning
