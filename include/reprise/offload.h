// Host memory for tensors that regions offload (Decision::Offload, offload_inputs).
//
// There is one pool of pinned pages per process: pinning is expensive, so pages are shared by all
// regions and reused. "Offload" in docs/checkpointing.md describes what is moved and when.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>

namespace reprise {

/// Tensors smaller than this are not moved: it would not be worth the cost.
inline constexpr size_t kSmallestMovedBytes = size_t{64} << 10;

struct OffloadSettings {
  /// Limit in bytes for the pages. A region that needs more throws before it allocates anything.
  /// 0: half of the machine's memory.
  int64_t host_budget = 0;
  /// How many regions ahead to fetch: while a region is recomputed, the tensors of this many
  /// regions before it are copied back. 0: each region waits for its own.
  size_t prefetch = 1;
};

/// Applies to later transfers. Throws if more than `host_budget` is in use.
REPRISE_API void set_offload_settings(const OffloadSettings& settings);
REPRISE_API OffloadSettings offload_settings();

struct OffloadUse {
  int64_t host_bytes = 0;         ///< all pages, in use or free
  int64_t host_bytes_in_use = 0;  ///< pages that hold tensors
  int64_t host_bytes_peak = 0;    ///< the peak of host_bytes_in_use
};
REPRISE_API OffloadUse offload_use();

/// Returns free pages to the system and resets the peak.
REPRISE_API void trim_offload_memory();

}  // namespace reprise
