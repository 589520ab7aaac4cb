// Runs a step under given decisions.
#pragma once

#include "plan/decisions_guard.h"

#include <reprise/region_decision.h>

#include <functional>
#include <utility>
#include <vector>

namespace reprise::testing {

inline void run_planned(std::vector<RegionDecision> decisions, const std::function<void()>& step) {
  const planning::DecisionsGuard guard(planning::step_decisions(std::move(decisions)));
  step();
  guard.finish();
}

}  // namespace reprise::testing
