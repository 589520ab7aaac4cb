// The ways in which one kind of block can be held between forward and backward.
//
// Every decision vector that is not worse in all respects than another one is here (exactly, as
// long as the set stays below its limit; with a stated loss beyond it).
#pragma once

#include "plan/costs.h"
#include "plan/solver_options.h"

#include <vector>

namespace reprise::planning {

/// One way. Bytes are on top of what earlier blocks hold.
struct BlockOption {
  bool is_region = false;
  bool offloads_input = false;
  std::vector<Choice> choices;  ///< one for each operator; empty when it is no region

  int64_t held_bytes = 0;   ///< on the device between its forward and its backward
  int64_t moved_bytes = 0;  ///< offloaded: on the host, and for a while in flight
  int64_t forward_bytes = 0;
  int64_t backward_bytes = 0;  ///< without gradients of parameters
  int64_t extra_ns = 0;        ///< without stalls, which depend on the next block
};

struct BlockOptions {
  std::vector<BlockOption> options;  ///< fastest first
  // For each way left out there is one here, no slower but for stalls, with at most this many more
  // bytes held, as many more moved, and this many more in backward that it would not have needed.
  int64_t held_thinned_by = 0;
  int64_t surplus_thinned_by = 0;
};

/// `moved_levels` are those of the chain.
REPRISE_API BlockOptions block_options(const BlockCosts& block,
                                       const SolverOptions& options,
                                       const std::vector<int64_t>& moved_levels);

/// Sums of offloaded bytes of one block at which the best ways are kept when there are too many:
/// evenly spaced from 0 to all that the largest block can offload.
REPRISE_API std::vector<int64_t> moved_levels(const ChainCosts& costs,
                                              const SolverOptions& options);

/// The numbers of one way, from its decisions. Throws std::invalid_argument for decisions that the
/// block's operators do not allow.
REPRISE_API BlockOption price(const BlockCosts& block,
                              std::vector<Choice> choices,
                              bool offloads_input);
REPRISE_API BlockOption price_plain(const BlockCosts& block);

}  // namespace reprise::planning
