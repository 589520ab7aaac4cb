#include "reprise/training/options/preference_options.h"

#include <cstddef>

namespace reprise::app {

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

}  // namespace reprise::app
