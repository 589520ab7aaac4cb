// Group estimators by the names that fixtures use for them.
#pragma once

#include "loss/enum_names.h"

#include <reprise/loss/advantage.h>

#include <array>
#include <string_view>

namespace reprise::testing {

inline constexpr std::array<EnumName<GroupEstimator>, 4> kGroupEstimatorNames = {
    {{"grpo", GroupEstimator::Grpo},
     {"group_norm", GroupEstimator::Grpo},
     {"rloo", GroupEstimator::Rloo},
     {"reinforce_baseline", GroupEstimator::ReinforceBaseline}}};

inline GroupEstimator parse_group_estimator(std::string_view name) {
  return parse_enum<GroupEstimator>("advantage_estimator", name, kGroupEstimatorNames);
}

}  // namespace reprise::testing
