// What each policy loss takes into account.
#pragma once

#include <reprise/loss/policy.h>

namespace reprise {

struct PolicyUses {
  bool clip = true;            ///< both epsilons, as distances from 1
  bool delta = true;           ///< heeds delta
  bool sequence_level = true;  ///< heeds RatioLevel::Sequence
  bool tokens = true;          ///< is a sum over tokens, so that tokens can be weighted or dropped
};

PolicyUses uses_of(PolicyLoss loss);

/// epsilon_high, or epsilon where it is not given.
double upper_epsilon(const PolicyOptions& options);

}  // namespace reprise
