// What a plan takes: the model's constraints, evaluated.
//
// The solver asks for a unit's moments with nothing held before it; a prediction puts them on top
// of each other. So what is solved and what is reported cannot drift apart.
#pragma once

#include "plan/block_options.h"
#include "plan/chain_plan.h"

#include <vector>

namespace reprise::planning {

/// Forward and backward moments of a unit of one block, with nothing held before it.
std::vector<Moment> block_moments(size_t block, const BlockOption& option, int64_t gradients);

/// The same of an outer region. `gradients` are those of gradients_from(costs).
std::vector<Moment> segment_moments(const ChainCosts& costs,
                                    const std::vector<int64_t>& gradients,
                                    size_t first_block,
                                    size_t blocks,
                                    Inside inside);

/// Time of the outer region's recompute and of those inside it.
int64_t segment_ns(const ChainCosts& costs, size_t first_block, size_t blocks, Inside inside);

/// Units must cover the chain in order. Their sums (held, moved, times) are read from them; their
/// moments are worked out again.
REPRISE_API Prediction predict(const ChainCosts& costs, const std::vector<UnitPlan>& units);

}  // namespace reprise::planning
