// The options of one kind of block: what it holds between forward and backward, and what that
// costs.
//
// All decision vectors that no other beats in every number are here. Above the size limit the set
// is thinned, with a stated loss.
#pragma once

#include "plan/cost/chain_costs.h"
#include "plan/solve/solver_options.h"

#include <vector>

namespace reprise::planning {

/// One option. Bytes are on top of what earlier blocks hold.
struct BlockOption {
  bool is_region = false;
  bool offloads_input = false;
  std::vector<Choice> choices;  ///< one for each operator; empty if it is no region

  int64_t held_bytes = 0;   ///< on the device between its forward and its backward
  int64_t moved_bytes = 0;  ///< offloaded: on the host, and in flight for a while
  int64_t forward_bytes = 0;
  int64_t backward_bytes = 0;  ///< without parameter gradients
  int64_t extra_ns = 0;        ///< without stalls, which depend on the next block
};

struct BlockOptions {
  std::vector<BlockOption> options;  ///< fastest first
  // For each option that thinning removed there is one here that is no slower, apart from stalls.
  // It holds and moves at most held_thinned_by bytes more, and has at most surplus_thinned_by bytes
  // more in backward that backward does not need.
  int64_t held_thinned_by = 0;
  int64_t surplus_thinned_by = 0;
};

/// `moved_levels`: moved_levels() of the chain.
REPRISE_API BlockOptions block_options(const BlockCosts& block,
                                       const SolverOptions& options,
                                       const std::vector<int64_t>& moved_levels);

/// Offloaded bytes of one block at which thinning keeps the best options: evenly spaced from 0 to
/// the most that any block can offload.
REPRISE_API std::vector<int64_t> moved_levels(const ChainCosts& costs,
                                              const SolverOptions& options);

/// The numbers of one option, from its decisions. Throws std::invalid_argument for decisions that
/// the block's operators do not allow.
REPRISE_API BlockOption price(const BlockCosts& block,
                              std::vector<Choice> choices,
                              bool offloads_input);
REPRISE_API BlockOption price_plain(const BlockCosts& block);

}  // namespace reprise::planning
