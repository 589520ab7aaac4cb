// Everything that can be done with the blocks that begin at one place of the chain.
#pragma once

#include "plan/block_options.h"
#include "plan/chain_plan.h"

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// One way to hold one or more blocks, with the sums that the chain's search needs.
struct ChainUnit {
  uint32_t id = 0;  // its index at its place
  uint32_t blocks = 1;
  uint32_t option = 0;  // of one block: its index in the kind's options
  Inside inside = Inside::Plain;
  bool offloads_input = false;
  int64_t need_bytes = 0;  // the worst of its moments, nothing held before it
  int64_t held_bytes = 0;
  int64_t moved_bytes = 0;
  int64_t ns = 0;  // with stalls
};

/// The units of every place. `options` are those of the kinds.
std::vector<std::vector<ChainUnit>> chain_units(const ChainCosts& costs,
                                                const std::vector<BlockOptions>& options,
                                                const SolverOptions& solver);

/// The units of one place that offload no more than `moved_bytes` and are not beaten by another
/// one. Without a host limit that is a matter of bytes on the device and time; fewer offloaded
/// bytes only decide between equals.
std::vector<ChainUnit> usable(const std::vector<ChainUnit>& units,
                              int64_t moved_bytes,
                              bool has_host_limit);

/// The unit in full.
UnitPlan unit_plan(const ChainCosts& costs,
                   const std::vector<BlockOptions>& options,
                   size_t first_block,
                   const ChainUnit& unit);

}  // namespace reprise::planning
