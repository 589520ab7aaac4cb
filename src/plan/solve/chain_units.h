// All units of a chain: what can be done with each block, and with each outer region.
#pragma once

#include "plan/solve/block_options.h"
#include "plan/solve/chain_plan.h"

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// One option for a block or an outer region, with the sums that the search needs.
struct ChainUnit {
  uint32_t id = 0;  // index among the units with the same first block
  uint32_t blocks = 1;
  uint32_t option = 0;  // if it is one block: index in the kind's options
  Inside inside = Inside::Plain;
  bool offloads_input = false;
  int64_t need_bytes = 0;  // its peak if nothing is held before it
  int64_t held_bytes = 0;
  int64_t moved_bytes = 0;
  int64_t ns = 0;  // including stalls
};

/// The units by first block. `options` are those of the kinds.
std::vector<std::vector<ChainUnit>> chain_units(const ChainCosts& costs,
                                                const std::vector<BlockOptions>& options,
                                                const SolverOptions& solver);

/// The units of one first block that offload no more than `moved_bytes` and that no other beats.
/// Without a host limit only device bytes and time are compared, and offloaded bytes break ties.
std::vector<ChainUnit> usable(const std::vector<ChainUnit>& units,
                              int64_t moved_bytes,
                              bool has_host_limit);

/// The unit with all its decisions.
UnitPlan unit_plan(const ChainCosts& costs,
                   const std::vector<BlockOptions>& options,
                   size_t first_block,
                   const ChainUnit& unit);

}  // namespace reprise::planning
