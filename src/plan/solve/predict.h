// The predicted bytes and time of a plan.
//
// The solver uses a unit's moments with nothing held before it, and a prediction stacks the same
// moments, so the two cannot drift apart.
#pragma once

#include "plan/solve/block_options.h"
#include "plan/solve/chain_plan.h"

#include <vector>

namespace reprise::planning {

/// Forward and backward moments of a unit of one block, with nothing held before it.
std::vector<Moment> block_moments(size_t block, const BlockOption& option, int64_t gradients);

/// The same for an outer region. `gradients`: gradients_from(costs).
std::vector<Moment> segment_moments(const ChainCosts& costs,
                                    const std::vector<int64_t>& gradients,
                                    size_t first_block,
                                    size_t blocks,
                                    Inside inside);

/// Time of the outer region's recompute and of the recomputes inside it.
int64_t segment_ns(const ChainCosts& costs, size_t first_block, size_t blocks, Inside inside);

/// Units must cover the chain in order. Their sums (held, moved, times) are taken as given; their
/// moments are computed again.
REPRISE_API Prediction predict(const ChainCosts& costs, const std::vector<UnitPlan>& units);

}  // namespace reprise::planning
