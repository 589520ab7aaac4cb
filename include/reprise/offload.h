// Host memory for tensors that regions give away (Decision::Offload, offload_inputs).
//
// Process-wide: pinned pages are expensive to make, so all regions share them and keep them for
// reuse. docs/checkpointing.md, "Offload", says what moves when.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>

namespace reprise {

/// A tensor smaller than this stays where it is: it would cost more to move than it frees.
inline constexpr size_t kSmallestMovedBytes = size_t{64} << 10;

struct OffloadSettings {
  /// The most host bytes that pages may take. A region that needs more fails before anything is
  /// allocated. 0: half of the machine's memory.
  int64_t host_budget = 0;
  /// While a region is recomputed, what this many regions before it gave away comes back. 0: each
  /// region waits for its own.
  size_t prefetch = 1;
};

/// For what is moved from now on. Throws if more than `host_budget` is in use.
REPRISE_API void set_offload_settings(const OffloadSettings& settings);
REPRISE_API OffloadSettings offload_settings();

struct OffloadUse {
  int64_t host_bytes = 0;         ///< pages that exist, in use or kept for reuse
  int64_t host_bytes_in_use = 0;  ///< pages that hold tensors
  int64_t host_bytes_peak = 0;    ///< the most that were in use at once
};
REPRISE_API OffloadUse offload_use();

/// Gives pages that hold nothing back to the system, and starts the peak anew.
REPRISE_API void trim_offload_memory();

}  // namespace reprise
