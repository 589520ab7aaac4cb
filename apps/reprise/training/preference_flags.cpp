// Which flags the losses of dpo heed is known to the loss library: it refuses options that have no
// effect where they are not what they usually are. A flag that gives the usual value would have no
// effect either, so the library is asked again with another one.
#include "reprise/training/preference_flags.h"

#include "reprise/training/flag_effects.h"

#include <array>
#include <cstddef>

namespace reprise::app {

namespace {

/// A flag, and how to give it a value that is in range and not the usual one.
struct UnusualValue {
  const char* flag;
  void (*set)(PreferenceOptions& options);
};

// Flags whose usual value is 0 or false are not among them: so given, they ask for nothing.
constexpr std::array<UnusualValue, 4> kUnusual = {
    {{"discopop_tau", [](PreferenceOptions& options) { options.discopop_tau = 1; }},
     {"f_alpha_divergence_coef", [](PreferenceOptions& options) { options.f_alpha = 0.25; }},
     {"simpo_gamma", [](PreferenceOptions& options) { options.simpo_gamma = 1; }},
     {"cpo_alpha", [](PreferenceOptions& options) { options.cpo_alpha = 2; }}}};

}  // namespace

PreferenceOptions preference_options(const TrainingFlags& flags) {
  PreferenceOptions options;
  options.losses.clear();
  for (size_t i = 0; i < flags.loss_type.size(); ++i) {
    options.losses.emplace_back(parse_preference_loss(flags.loss_type[i]),
                                flags.loss_weights.empty() ? 1.0 : flags.loss_weights[i]);
  }
  options.beta = flags.beta;
  options.label_smoothing = flags.label_smoothing;
  options.discopop_tau = flags.discopop_tau;
  options.f_divergence = parse_f_divergence(flags.f_divergence_type);
  options.f_alpha = flags.f_alpha_divergence_coef;
  options.ld_alpha = flags.ld_alpha;
  options.use_weighting = flags.use_weighting;
  options.simpo_gamma = flags.simpo_gamma;
  options.cpo_alpha = flags.cpo_alpha;
  options.alphapo_alpha = flags.alphapo_alpha;
  options.nll_coef = flags.nll_loss_coef;
  options.reference_free = flags.reference_free;
  return options;
}

void check_preference_effects(const TrainingFlags& flags) {
  const PreferenceOptions options = preference_options(flags);
  validate(options);
  for (const UnusualValue& unusual : kUnusual) {
    if (flags.given.contains(unusual.flag)) {
      PreferenceOptions changed = options;
      unusual.set(changed);
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
