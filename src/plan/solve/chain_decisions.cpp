#include "plan/solve/chain_decisions.h"

#include <c10/util/Exception.h>

namespace reprise::planning {
namespace {

RegionDecision decision_of(const TracedRegion& region,
                           const BlockCosts& block,
                           const UnitPlan& unit) {
  TORCH_INTERNAL_ASSERT(unit.choices.size() == region.ops.size());
  RegionDecision decision{.name = region.name, .offload_inputs = unit.offloads_input};
  for (size_t i = 0; i < unit.choices.size(); ++i) {
    const TracedOp& op = region.ops[i];
    if (unit.choices[i] == Choice::Recompute) {
      continue;
    }
    decision.ops.push_back({.name = op.name,
                            .overload = op.overload,
                            .call_index = op.call_index,
                            .decision = static_cast<Decision>(unit.choices[i])});
    decision.allow_lossy = decision.allow_lossy || (unit.choices[i] == Choice::Compress &&
                                                    !block.ops[i].compresses_exactly);
  }
  return decision;
}

}  // namespace

std::vector<RegionDecision> decisions_of(const StepTrace& trace,
                                         const ChainCosts& costs,
                                         const ChainPlan& plan) {
  std::vector<RegionDecision> decisions;
  for (const UnitPlan& unit : plan.units) {
    TORCH_INTERNAL_ASSERT(unit.first_block == decisions.size());
    if (unit.blocks > 1) {
      for (size_t i = 0; i < unit.blocks; ++i) {
        decisions.push_back({.name = trace.regions[unit.first_block + i].name,
                             .is_plain = unit.inside == Inside::Plain,
                             .joined = i == 0 ? unit.blocks - 1 : 0});
      }
      continue;
    }
    const TracedRegion& region = trace.regions[unit.first_block];
    if (unit.is_region) {
      decisions.push_back(decision_of(region, costs.block(unit.first_block), unit));
    } else {
      decisions.push_back({.name = region.name, .is_plain = true});
    }
  }
  return decisions;
}

}  // namespace reprise::planning
