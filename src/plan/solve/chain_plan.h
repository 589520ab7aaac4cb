// The solver's plan for one training step, and its predicted bytes and time.
#pragma once

#include "plan/cost/chain_costs.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::planning {

/// How the blocks inside an outer region run.
enum class Inside : uint8_t {
  Plain,    ///< the outer recompute restores everything that they need
  Regions,  ///< each is a region that recomputes everything; the outer one restores their inputs
};

/// One block, or several consecutive blocks in an outer region.
struct UnitPlan {
  size_t first_block = 0;
  size_t blocks = 1;
  bool is_region = false;
  bool offloads_input = false;
  std::vector<Choice> choices;    ///< if it is one block and a region: one for each operator
  Inside inside = Inside::Plain;  ///< if it is an outer region over several blocks

  int64_t held_bytes = 0;
  int64_t moved_bytes = 0;
  int64_t extra_ns = 0;  ///< recompute and compression
  int64_t stall_ns = 0;  ///< waiting for the link
};

enum class Phase : uint8_t { Forward, Head, Backward };

/// Bytes at the peak of one part of the step.
struct Moment {
  Phase phase = Phase::Forward;
  size_t block = 0;           ///< index; for the head, the number of blocks
  int64_t base_bytes = 0;     ///< ChainCosts::base_bytes
  int64_t held_bytes = 0;     ///< by units before this one
  int64_t working_bytes = 0;  ///< the unit's own, at its peak
  int64_t flight_bytes = 0;   ///< reserve for copies in flight
  int64_t gradient_bytes = 0;

  int64_t total() const {
    return base_bytes + held_bytes + working_bytes + flight_bytes + gradient_bytes;
  }
};

/// The predicted bytes and time of a list of units.
struct Prediction {
  std::vector<Moment> moments;  ///< in order: every block's forward, the head, every backward
  size_t tightest = 0;          ///< the moment with the most bytes
  int64_t peak_bytes = 0;
  int64_t extra_ns = 0;  ///< over the same step without regions; stalls included
  int64_t host_bytes = 0;
  int64_t held_bytes = 0;  ///< by all units when forward ends
};

/// One of the best plans: no plan with a smaller peak is as fast with as few host bytes.
struct CurvePoint {
  int64_t peak_bytes = 0;
  int64_t extra_ns = 0;
  int64_t host_bytes = 0;
};

struct ChainPlan {
  std::vector<UnitPlan> units;
  Prediction prediction;
  // Why it is not faster: the tightest moment leaves `spare_bytes` of the budget, and the next
  // faster plan needs `next_faster->peak_bytes`.
  int64_t spare_bytes = 0;
  std::optional<CurvePoint> next_faster;
};

}  // namespace reprise::planning
