// The engine's side of reprise/stats.h: adding to the statistics.
#pragma once

#include <reprise/stats.h>

#include <c10/core/Storage.h>

#include <atomic>
#include <string>

namespace reprise::detail {

extern std::atomic<bool> stats_enabled;

inline bool counts_stats() {
  return stats_enabled.load(std::memory_order_relaxed);
}

/// Whether no region was counted as a holder of this storage since the last reset.
bool is_first_holder(const c10::Storage& storage);

/// Adds `delta` to the total and to the statistics of the region.
void count(const std::string& region, const RegionStats& delta);

}  // namespace reprise::detail
