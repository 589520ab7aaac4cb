// Which options each policy loss uses.
#pragma once

#include <reprise/loss/policy_gradient.h>

namespace reprise {

struct PolicyLossTraits {
  bool clip = true;            ///< clips the ratio by both epsilons, as distances from 1
  bool delta = true;           ///< uses delta
  bool sequence_level = true;  ///< supports RatioLevel::Sequence
  bool tokens = true;          ///< sums over tokens, which can then be weighted or dropped
};

PolicyLossTraits traits_of(PolicyLoss loss);

/// epsilon_high, or epsilon if it is not set.
double upper_epsilon(const PolicyOptions& options);

}  // namespace reprise
