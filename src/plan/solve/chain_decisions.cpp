#include "plan/solve/chain_decisions.h"

#include <c10/util/Exception.h>

namespace reprise::planning {
namespace {

TracedDecision traced_decision(const BlockCosts& block, const UnitPlan& unit) {
  TORCH_INTERNAL_ASSERT(unit.choices.size() == block.ops.size());
  TracedDecision region{.offload_inputs = unit.offloads_input};
  for (size_t i = 0; i < unit.choices.size(); ++i) {
    region.ops.push_back(static_cast<Decision>(unit.choices[i]));
    region.allow_lossy = region.allow_lossy ||
                         (unit.choices[i] == Choice::Compress && !block.ops[i].compresses_exactly);
  }
  return region;
}

}  // namespace

std::vector<TracedDecision> traced_decisions(const ChainCosts& costs,
                                             const std::vector<UnitPlan>& units) {
  std::vector<TracedDecision> regions;
  for (const UnitPlan& unit : units) {
    TORCH_INTERNAL_ASSERT(unit.first_block == regions.size());
    if (unit.blocks > 1) {
      for (size_t i = 0; i < unit.blocks; ++i) {
        regions.push_back(
            {.is_plain = unit.inside == Inside::Plain, .joined = i == 0 ? unit.blocks - 1 : 0});
      }
    } else if (unit.is_region) {
      regions.push_back(traced_decision(costs.block(unit.first_block), unit));
    } else {
      regions.push_back({.is_plain = true});
    }
  }
  return regions;
}

}  // namespace reprise::planning
