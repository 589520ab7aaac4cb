// Flags of dpo's losses. The loss library refuses options without effect if their value is not the
// default. A flag that repeats the default would have no effect either, so the library is asked
// again with another value.
#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/options/preference_options.h"

#include <array>

namespace reprise::app {

namespace {

/// A flag, and a function that sets a valid value other than the default.
struct OtherValue {
  const char* flag;
  void (*set)(PreferenceOptions& options);
};

// Flags whose default is 0 or false are missing here: given as such, they ask for nothing.
constexpr std::array<OtherValue, 4> kOtherValues = {
    {{"discopop_tau", [](PreferenceOptions& options) { options.discopop_tau = 1; }},
     {"f_alpha_divergence_coef", [](PreferenceOptions& options) { options.f_alpha = 0.25; }},
     {"simpo_gamma", [](PreferenceOptions& options) { options.simpo_gamma = 1; }},
     {"cpo_alpha", [](PreferenceOptions& options) { options.cpo_alpha = 2; }}}};

}  // namespace

void check_preference_effects(const TrainingFlags& flags) {
  const PreferenceOptions options = preference_options(flags);
  validate(options);
  for (const OtherValue& other : kOtherValues) {
    if (flags.given.contains(other.flag)) {
      PreferenceOptions changed = options;
      other.set(changed);
      validate(changed);
    }
  }
  if (options.losses.size() == 1 && options.losses.front().first == PreferenceLoss::Sft) {
    refuse(flags, {"beta"}, "with --loss_type sft alone, which compares nothing");
  }
  if (!needs_reference(options)) {
    refuse(flags, {"f_divergence_type"}, "without a reference, from which it would be measured");
  }
}

}  // namespace reprise::app
