// What each preference loss takes into account: which options it heeds, and what it compares.
#pragma once

#include <reprise/loss/preference.h>

namespace reprise {

struct LossUses {
  bool reference = true;      ///< compares with a reference
  bool difference = true;     ///< depends on the difference of two scores only
  bool sorts = false;         ///< over the batch, so that there are no pairs
  bool smoothing = false;     ///< heeds label_smoothing
  bool is_objective = false;  ///< by itself, with its own cross entropy or target: not to be summed
  bool cpo_alpha = false;     ///< has a cross entropy with this factor
  bool margin = false;        ///< heeds simpo_gamma
  bool mean_logps = false;    ///< compares means over tokens without a reference, not sums
  bool prompt = false;        ///< its cross entropy includes the prompt
};

LossUses uses_of(PreferenceLoss loss);

/// Whether some loss of the options has this property: any_uses(options, &LossUses::smoothing).
bool any_uses(const PreferenceOptions& options, bool LossUses::*property);

}  // namespace reprise
