// Which options each preference loss uses, and what it compares.
#pragma once

#include <reprise/loss/preference.h>

namespace reprise {

struct PreferenceLossTraits {
  bool reference = true;   ///< needs a reference
  bool difference = true;  ///< depends only on the difference of two scores
  bool sorts = false;      ///< sorts over the batch, which breaks up the pairs
  bool smoothing = false;  ///< uses label_smoothing
  bool is_objective =
      false;  ///< a complete objective with its own cross entropy or target: not summable
  bool cpo_alpha = false;   ///< has a cross-entropy term with this factor
  bool margin = false;      ///< uses simpo_gamma
  bool mean_logps = false;  ///< without a reference, compares means over tokens instead of sums
  bool prompt = false;      ///< its cross entropy includes the prompt
};

PreferenceLossTraits traits_of(PreferenceLoss loss);

/// Whether any loss of the options has a trait: any_has(options, &PreferenceLossTraits::smoothing).
bool any_has(const PreferenceOptions& options, bool PreferenceLossTraits::*trait);

}  // namespace reprise
