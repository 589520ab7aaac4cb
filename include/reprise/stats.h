// Statistics of checkpointing: counts, bytes and time, in total and per region name.
#pragma once

#include <reprise/export.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace reprise {

struct RegionStats {
  size_t entered = 0;        ///< forward runs
  size_t recomputed = 0;     ///< recompute runs
  size_t early_stopped = 0;  ///< recompute runs that stopped before the end of the region
  /// Operator calls replaced by kept results: with a policy, and those of effectful operators.
  size_t ops_replayed = 0;
  size_t ops_recomputed = 0;   ///< operator calls run again (with a policy)
  size_t tensors_dropped = 0;  ///< tensors that autograd would have saved
  /// Bytes of these that were freed at the end of forward, unlike inputs, outputs and parameters.
  /// A forward inside another region's recompute does not count again.
  size_t bytes_dropped = 0;
  /// Bytes that policies kept on the device, compressed or not, and results of effectful operators.
  size_t bytes_kept = 0;
  /// Bytes that regions hold and autograd would not have saved: kept results, on the device or on
  /// the host (compressed ones with their bytes after compression), and inputs.
  size_t bytes_unsaved = 0;
  size_t bytes_offloaded = 0;      ///< bytes moved to the host
  size_t bytes_fetched = 0;        ///< bytes fetched from the host
  size_t bytes_compressed = 0;     ///< bytes of compressed results, before compression
  size_t bytes_compressed_to = 0;  ///< bytes of compressed results, after compression
  /// Bytes that should have been offloaded or compressed but were not, or whose original the
  /// program still held: small tensors, a region's outputs, inputs that are not activations.
  size_t bytes_not_moved = 0;
  std::chrono::nanoseconds recompute_time{0};  ///< host time, which on CUDA is launch time
};

struct CheckpointStats {
  RegionStats total;
  /// By CheckpointOptions::name; unnamed regions are under "".
  std::map<std::string, RegionStats> regions;
};

/// Starts or stops counting. Initially off, because counting takes a lock.
REPRISE_API void record_checkpoint_stats(bool enabled);

/// The statistics since the last reset. Throws if counting was never started.
REPRISE_API CheckpointStats checkpoint_stats();

REPRISE_API void reset_checkpoint_stats();

}  // namespace reprise
