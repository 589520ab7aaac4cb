// What the solver may use, and the set sizes above which it thins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace reprise::planning {

/// Sizes of the solver's sets. A larger set is thinned: of neighbours within some bytes of each
/// other only the fastest remains, with its exact numbers.
struct SolverLimits {
  size_t points_of_ops = 1024;  ///< partial decision vectors of one block
  size_t options = 512;         ///< decision vectors of one block that the chain sees
  size_t points = 1024;         ///< partial plans of the chain's rest
  size_t host_points = 128;     ///< the same if host bytes are counted too
  size_t host_levels = 8;       ///< levels of host bytes that are told apart among these
  size_t flight_levels = 8;     ///< sizes of the reserve for bytes in flight
  size_t segments = 8;  ///< outer regions up to this length are all tried; of longer ones, four
                        ///< lengths per doubling

  /// No thinning at all: for small chains and tests.
  static SolverLimits exact() {
    constexpr size_t kAll = std::numeric_limits<size_t>::max();
    return {kAll, kAll, kAll, kAll, kAll, kAll, kAll};
  }
};

struct SolverOptions {
  bool allow_plain = true;  ///< blocks may run without being a region
  bool allow_keep = true;
  bool allow_offload = true;
  bool allow_compress = true;
  bool allow_lossy = false;           ///< compression that changes bits
  size_t longest_segment = 8;         ///< blocks in one outer region; 1: no outer regions
  std::optional<int64_t> host_limit;  ///< bytes of host memory for offloading
  SolverLimits limits;
};

/// How much thinning may have cost: no plan is better by more than this. All 0: the result is
/// exact.
struct Slack {
  int64_t bytes = 0;
  int64_t host_bytes = 0;
  int64_t ns = 0;
};

}  // namespace reprise::planning
