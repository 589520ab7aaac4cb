// Generates the candidates for a rest and prunes them, through a grid of buckets if there are many.
#include "plan/solve/rest_search.h"

#include "plan/solve/rest_buckets.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise::planning {
namespace {

constexpr size_t kFewCandidates = 8192;  // up to here all are sorted, and none is lost

/// If the unit's own need is the peak, only the best of the points below it matters, unless host
/// bytes count too.
size_t first_candidate(const ChainUnit& unit, const Rest& rest, const RestSearch& search) {
  if (search.host_limit) {
    return 0;
  }
  const auto above = std::partition_point(rest.begin(), rest.end(), [&](const RestPoint& point) {
    return unit.held_bytes + point.peak <= unit.need_bytes;
  });
  return above == rest.begin() ? 0 : static_cast<size_t>(above - rest.begin()) - 1;
}

/// The best point of each prefix of ranks, as a Fenwick tree.
class PrefixBest {
 public:
  explicit PrefixBest(size_t ranks) : best_(ranks + 1) {}

  bool has_as_good(size_t rank, const RestPoint& point) const {
    for (size_t i = rank + 1; i > 0; i -= i & (~i + 1)) {
      if (best_[i] != nullptr && !is_better(point, *best_[i])) {
        return true;
      }
    }
    return false;
  }
  void add(size_t rank, const RestPoint& point) {
    for (size_t i = rank + 1; i < best_.size(); i += i & (~i + 1)) {
      if (best_[i] == nullptr || is_better(point, *best_[i])) {
        best_[i] = &point;
      }
    }
  }

 private:
  std::vector<const RestPoint*> best_;
};

/// Removes points that another one equals or beats in peak and time, and in host bytes if there is
/// a limit. Of equal points the first stays.
Rest prune(Rest points, bool has_host_limit) {
  std::stable_sort(points.begin(), points.end(), [](const RestPoint& a, const RestPoint& b) {
    return a.peak != b.peak ? a.peak < b.peak : is_better(a, b);
  });
  std::vector<int64_t> hosts(1);
  if (has_host_limit) {
    for (const auto& point : points) {
      hosts.push_back(point.host);
    }
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  }
  PrefixBest best(hosts.size());
  Rest kept;
  kept.reserve(points.size());  // `best` points into it
  for (const auto& point : points) {
    const auto rank = has_host_limit
                          ? std::lower_bound(hosts.begin(), hosts.end(), point.host) - hosts.begin()
                          : 0;
    if (!best.has_as_good(static_cast<size_t>(rank), point)) {
      kept.push_back(point);
      best.add(static_cast<size_t>(rank), kept.back());
    }
  }
  return kept;
}

size_t count_candidates(const std::vector<ChainUnit>& units,
                        size_t first_block,
                        const std::vector<Rest>& rests) {
  size_t count = 0;
  for (const auto& unit : units) {
    count += rests[first_block + unit.blocks].size();
  }
  return count;
}

RestResult extend_thinned(const std::vector<ChainUnit>& units,
                          size_t first_block,
                          const std::vector<Rest>& rests,
                          const RestSearch& search) {
  // A rest is sorted by peak, so its ends give the range of the candidates' peaks.
  int64_t lowest = std::numeric_limits<int64_t>::max(), highest = 0;
  for (const auto& unit : units) {
    const auto& rest = rests[first_block + unit.blocks];
    if (!rest.empty()) {
      lowest = std::min(lowest, std::max(unit.need_bytes, unit.held_bytes + rest.front().peak));
      highest = std::max(highest, std::max(unit.need_bytes, unit.held_bytes + rest.back().peak));
    }
  }
  Buckets buckets(lowest, highest, search);
  for (const auto& unit : units) {
    const auto& rest = rests[first_block + unit.blocks];
    buckets.add(unit, rest, first_candidate(unit, rest, search));
  }
  return {prune(buckets.points(), search.host_limit.has_value()),
          buckets.width(),
          buckets.host_width()};
}

}  // namespace

RestResult extend(const std::vector<ChainUnit>& units,
                  size_t first_block,
                  const std::vector<Rest>& rests,
                  const RestSearch& search) {
  const size_t count = count_candidates(units, first_block, rests);
  if (count <= kFewCandidates || search.points == std::numeric_limits<size_t>::max()) {
    RestResult result;
    result.rest.reserve(count);
    const int64_t host_limit = search.host_limit.value_or(std::numeric_limits<int64_t>::max());
    for (const auto& unit : units) {
      const auto& rest = rests[first_block + unit.blocks];
      for (size_t p = first_candidate(unit, rest, search); p < rest.size(); ++p) {
        if (unit.moved_bytes + rest[p].host <= host_limit) {
          result.rest.push_back(joined(unit, rest, p));
        }
      }
    }
    result.rest = prune(std::move(result.rest), search.host_limit.has_value());
    if (result.rest.size() <= search.points) {
      return result;
    }
  }
  return extend_thinned(units, first_block, rests, search);
}

}  // namespace reprise::planning
