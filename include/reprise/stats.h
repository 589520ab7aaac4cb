// What checkpointing did: counts, bytes and time, in all and per region name.
#pragma once

#include <reprise/export.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace reprise {

struct RegionStats {
  size_t entered = 0;         ///< forward runs
  size_t recomputed = 0;      ///< recompute runs
  size_t early_stopped = 0;   ///< recompute runs that ended before the region did
  size_t ops_replayed = 0;    ///< operator calls answered from kept results (regions with a policy)
  size_t ops_recomputed = 0;  ///< operator calls run again (regions with a policy)
  size_t tensors_dropped = 0;  ///< tensors that autograd would have kept
  size_t bytes_dropped =
      0;  ///< their bytes that were freed when forward ended; inputs and parameters are not
  size_t bytes_kept = 0;           ///< bytes that policies kept on the device, in whatever form
  size_t bytes_offloaded = 0;      ///< bytes that went to the host
  size_t bytes_brought_back = 0;   ///< bytes that were fetched from there
  size_t bytes_compressed = 0;     ///< bytes of kept tensors before they were compressed
  size_t bytes_compressed_to = 0;  ///< and after
  /// Bytes that should have been moved or compressed but stayed, or were held by the program
  /// besides: small tensors, a region's results, inputs that are no activations.
  size_t bytes_not_moved = 0;
  std::chrono::nanoseconds recompute_time{0};  ///< host time; on CUDA that is launch time
};

struct CheckpointStats {
  RegionStats total;
  /// By CheckpointOptions::name; unnamed regions come under "".
  std::map<std::string, RegionStats> regions;
};

/// Starts or stops counting. Off at first: counting takes a lock, not counting takes one load.
REPRISE_API void record_checkpoint_stats(bool enabled);

/// What was counted since the last reset. Throws if counting was never switched on.
REPRISE_API CheckpointStats checkpoint_stats();

REPRISE_API void reset_checkpoint_stats();

}  // namespace reprise
