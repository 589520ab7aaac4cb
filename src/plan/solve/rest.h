// The Pareto frontier of the rest of the chain, from one block to the end.
//
// Note [The rest needs no budget]
// With nothing held before it, the peak of a rest that begins with a unit is
// max(the unit's need, what it holds + the peak of the rest after it). What earlier blocks hold
// only adds to that. So the best pairs of peak and time do not depend on the budget, and one search
// answers all budgets: a larger budget picks from more of the same points.
#pragma once

#include "plan/solve/chain_units.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::planning {

struct RestPoint {
  int64_t peak = 0;
  int64_t ns = 0;
  int64_t host = 0;
  int64_t held = 0;
  uint32_t unit = 0;  // the first unit's id
  uint32_t next = 0;  // the point in the rest after it
};

/// Sorted by peak, then by is_better(). Without a host limit each point is better than all before
/// it.
using Rest = std::vector<RestPoint>;

struct RestSearch {
  size_t points = 0;       ///< most points of a rest before it is thinned
  size_t host_levels = 1;  ///< with a host limit: levels of host bytes that are told apart
  std::optional<int64_t> host_limit;
};

inline bool is_better(const RestPoint& a, const RestPoint& b) {
  if (a.ns != b.ns) {
    return a.ns < b.ns;
  }
  return a.host != b.host ? a.host < b.host : a.held < b.held;
}

/// The unit before point `p` of the rest after it.
inline RestPoint joined(const ChainUnit& unit, const Rest& rest, size_t p) {
  RestPoint point;
  point.peak = std::max(unit.need_bytes, unit.held_bytes + rest[p].peak);
  point.ns = unit.ns + rest[p].ns;
  point.host = unit.moved_bytes + rest[p].host;
  point.held = unit.held_bytes + rest[p].held;
  point.unit = unit.id;
  point.next = static_cast<uint32_t>(p);
  return point;
}

}  // namespace reprise::planning
