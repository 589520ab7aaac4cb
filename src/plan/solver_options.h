// What the solver may use and how far it goes before it thins out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace reprise::planning {

/// Sizes of the sets that the solver carries. Beyond them a set is thinned: neighbours within some
/// bytes of each other are represented by the fastest of them, with its true numbers.
struct SolverLimits {
  size_t points_of_ops = 1024;  ///< partial decision vectors of one block
  size_t options = 512;         ///< decision vectors of one block that the chain sees
  size_t points = 1024;         ///< partial plans of the chain's rest
  size_t host_points = 128;     ///< the same where host bytes are counted beside
  size_t host_levels = 8;       ///< host bytes that are told apart among these
  size_t flight_levels = 8;     ///< sizes of the reserve for bytes in flight
  size_t segments = 8;  ///< lengths of outer regions that are all tried; of longer ones four
                        ///< per doubling are

  /// No thinning at all: for small chains and tests.
  static SolverLimits exact() {
    constexpr size_t kAll = std::numeric_limits<size_t>::max();
    return {kAll, kAll, kAll, kAll, kAll, kAll, kAll};
  }
};

struct SolverOptions {
  bool allow_plain = true;  ///< blocks that are no region
  bool allow_keep = true;
  bool allow_offload = true;
  bool allow_compress = true;
  bool allow_lossy = false;           ///< compression that changes bits
  size_t longest_segment = 8;         ///< blocks in one outer region; 1: no outer regions
  std::optional<int64_t> host_limit;  ///< bytes of host memory for offloading
  SolverLimits limits;
};

/// How much thinning may have cost: no plan that is better by more exists. All 0: none was needed.
struct Slack {
  int64_t bytes = 0;
  int64_t host_bytes = 0;
  int64_t ns = 0;
};

}  // namespace reprise::planning
