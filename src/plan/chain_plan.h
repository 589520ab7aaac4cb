// A plan for one training step, and what it is predicted to take.
#pragma once

#include "plan/costs.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::planning {

/// How the blocks of an outer region stand inside it.
enum class Inside : uint8_t {
  Plain,    ///< the outer recompute brings back all that they need
  Regions,  ///< each is a region that recomputes everything; the outer one brings back inputs
};

/// One or more consecutive blocks that are held as one thing.
struct UnitPlan {
  size_t first_block = 0;
  size_t blocks = 1;
  bool is_region = false;
  bool offloads_input = false;
  std::vector<Choice> choices;    ///< of one block that is a region: one for each operator
  Inside inside = Inside::Plain;  ///< of several blocks, which are an outer region

  int64_t held_bytes = 0;
  int64_t moved_bytes = 0;
  int64_t extra_ns = 0;  ///< recompute and compression
  int64_t stall_ns = 0;  ///< waiting for the link
};

enum class Phase : uint8_t { Forward, Head, Backward };

/// Bytes at the worst instant of one stretch of the step.
struct Moment {
  Phase phase = Phase::Forward;
  size_t block = 0;           ///< the number of blocks for the head
  int64_t base_bytes = 0;     ///< weights and the like
  int64_t held_bytes = 0;     ///< by units before this one
  int64_t working_bytes = 0;  ///< the unit's own, at its worst
  int64_t flight_bytes = 0;   ///< reserve for copies under way
  int64_t gradient_bytes = 0;

  int64_t total() const {
    return base_bytes + held_bytes + working_bytes + flight_bytes + gradient_bytes;
  }
};

/// What a list of units takes, moment by moment in the order of the step.
struct Prediction {
  std::vector<Moment> moments;  ///< every block's forward, the head, every block's backward
  size_t tightest = 0;          ///< the moment with the most bytes
  int64_t peak_bytes = 0;
  int64_t extra_ns = 0;  ///< over the same step without regions; stalls included
  int64_t host_bytes = 0;
  int64_t held_bytes = 0;  ///< by all units, when forward ends
};

/// One plan among the best: none with a smaller peak is as fast with as few host bytes.
struct CurvePoint {
  int64_t peak_bytes = 0;
  int64_t extra_ns = 0;
  int64_t host_bytes = 0;
};

struct Plan {
  std::vector<UnitPlan> units;
  Prediction prediction;
  // Why it is not faster: the tightest moment leaves this much, and the next faster plan needs
  // `next_faster->peak_bytes`.
  int64_t spare_bytes = 0;
  std::optional<CurvePoint> next_faster;
};

}  // namespace reprise::planning
