// Which options each preference loss supports. An option without effect is refused: otherwise the
// user would notice only after the run that it was ignored.
#include "loss/preference/preference_traits.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <string>

namespace reprise {

namespace {

std::string names_in(const PreferenceOptions& options) {
  std::string text;
  for (const auto& [loss, weight] : options.losses) {
    text.append(text.empty() ? "" : ", ").append(name_of(loss));
  }
  return text;
}

bool has(const PreferenceOptions& options, PreferenceLoss wanted) {
  for (const auto& [loss, weight] : options.losses) {
    if (loss == wanted) {
      return true;
    }
  }
  return false;
}

void check_losses(const PreferenceOptions& options) {
  TORCH_CHECK(!options.losses.empty(), "[preference] expected at least one loss");
  for (size_t i = 0; i < options.losses.size(); ++i) {
    const auto& [loss, weight] = options.losses[i];
    TORCH_CHECK(weight > 0 && std::isfinite(weight),
                "[preference] the weight of ",
                name_of(loss),
                " must be positive, found ",
                weight,
                ". Remove a loss that should not count");
    for (size_t j = 0; j < i; ++j) {
      TORCH_CHECK(options.losses[j].first != loss,
                  "[preference] ",
                  name_of(loss),
                  " is given twice. Give it once, with the sum of the weights");
    }
    TORCH_CHECK(options.losses.size() == 1 || !traits_of(loss).is_objective,
                "[preference] ",
                name_of(loss),
                " is a complete objective with rewards of another meaning; it cannot be added to "
                "other losses");
  }
}

void check_at_least(double least, double value, const char* option) {
  TORCH_CHECK(value >= least && std::isfinite(value),
              "[preference] ",
              option,
              " must be at least ",
              least,
              ", found ",
              value);
}

void check_ranges(const PreferenceOptions& options) {
  TORCH_CHECK(options.beta > 0 && std::isfinite(options.beta),
              "[preference] beta must be positive, found ",
              options.beta);
  TORCH_CHECK(options.discopop_tau > 0,
              "[preference] discopop_tau must be positive, found ",
              options.discopop_tau);
  check_at_least(0, options.nll_coef, "nll_coef");
  check_at_least(0, options.cpo_alpha, "cpo_alpha");
  check_at_least(0, options.simpo_gamma, "simpo_gamma");
  const double ld_alpha = options.ld_alpha.value_or(0);
  TORCH_CHECK(
      ld_alpha >= 0 && ld_alpha <= 1, "[preference] ld_alpha must be in [0, 1], found ", ld_alpha);
  TORCH_CHECK(std::isfinite(options.f_alpha) && std::isfinite(options.alphapo_alpha),
              "[preference] f_alpha and alphapo_alpha must be finite, found ",
              options.f_alpha,
              " and ",
              options.alphapo_alpha);
}

void check_label_smoothing(const PreferenceOptions& options) {
  const double share = options.label_smoothing;
  TORCH_CHECK(share >= 0 && share < 0.5,
              "[preference] label_smoothing is the share of pairs with a wrong label, in [0, 0.5); "
              "found ",
              share);
  TORCH_CHECK(share == 0 || any_has(options, &PreferenceLossTraits::smoothing),
              "[preference] label_smoothing has no effect on ",
              names_in(options),
              ". It is for sigmoid, exo_pair, robust, aot, aot_unpaired, simpo, alphapo and cpo");
  TORCH_CHECK(share > 0 || !has(options, PreferenceLoss::ExoPair),
              "[preference] exo_pair needs a label_smoothing above 0, because it takes its "
              "logarithm; its authors recommend 1e-3");
}

void check_effect(const PreferenceOptions& options,
                  bool is_set,
                  const char* option,
                  bool is_used,
                  const char* users) {
  TORCH_CHECK(!is_set || is_used,
              "[preference] ",
              option,
              " has no effect on ",
              names_in(options),
              ". It is for ",
              users);
}

void check_options_of_single_losses(const PreferenceOptions& options) {
  const PreferenceOptions defaults;
  check_effect(options,
               options.discopop_tau != defaults.discopop_tau,
               "discopop_tau",
               has(options, PreferenceLoss::DiscoPop),
               "discopop");
  check_effect(options,
               options.simpo_gamma != defaults.simpo_gamma,
               "simpo_gamma",
               any_has(options, &PreferenceLossTraits::margin),
               "simpo and alphapo");
  check_effect(options,
               options.cpo_alpha != defaults.cpo_alpha,
               "cpo_alpha",
               any_has(options, &PreferenceLossTraits::cpo_alpha),
               "simpo and cpo");
  check_effect(options,
               options.alphapo_alpha != 0,
               "alphapo_alpha",
               any_has(options, &PreferenceLossTraits::margin) || has(options, PreferenceLoss::Cpo),
               "alphapo, simpo and cpo");
  TORCH_CHECK(options.nll_coef == 0 || !any_has(options, &PreferenceLossTraits::is_objective),
              "[preference] nll_coef adds a cross entropy to losses against a reference; for ",
              names_in(options),
              " use cpo_alpha (simpo, cpo), or beta as the weight of the other term (orpo)");
}

void check_f_divergence(const PreferenceOptions& options) {
  check_effect(options,
               options.f_alpha != PreferenceOptions().f_alpha,
               "f_alpha",
               options.f_divergence == FDivergence::Alpha,
               "f_divergence alpha_divergence");
  if (options.f_divergence == FDivergence::ReverseKl) {
    return;
  }
  check_effect(options,
               true,
               "f_divergence",
               any_has(options, &PreferenceLossTraits::reference),
               "losses against a reference");
  for (const auto& [loss, weight] : options.losses) {
    const auto uses = traits_of(loss);
    TORCH_CHECK(uses.difference && !uses.sorts,
                "[preference] f_divergence is not defined for ",
                name_of(loss),
                ": it leaves a term that depends only on the prompt, which cancels only in the "
                "difference of a pair's scores. It is for sigmoid, sigmoid_norm, hinge, ipo, "
                "ipo_sum, exo_pair, robust and discopop");
  }
}

void check_reference_free(const PreferenceOptions& options) {
  if (!options.reference_free) {
    return;
  }
  check_effect(options,
               true,
               "reference_free",
               any_has(options, &PreferenceLossTraits::reference),
               "losses against a reference");
  TORCH_CHECK(options.f_divergence == FDivergence::ReverseKl,
              "[preference] f_divergence needs the reference, which reference_free removes");
  for (const auto& [loss, weight] : options.losses) {
    TORCH_CHECK(traits_of(loss).difference,
                "[preference] reference_free is not defined for ",
                name_of(loss),
                ", which compares each response separately with the reference");
  }
}

void check_token_weights(const PreferenceOptions& options) {
  const bool any_reference = any_has(options, &PreferenceLossTraits::reference);
  check_effect(options,
               options.ld_alpha.has_value(),
               "ld_alpha",
               any_reference,
               "losses against a reference");
  check_effect(
      options, options.use_weighting, "use_weighting", any_reference, "losses against a reference");
  TORCH_CHECK(
      !options.use_weighting || !any_has(options, &PreferenceLossTraits::sorts),
      "[preference] use_weighting weights pairs, but aot and aot_unpaired sort responses over "
      "the batch, which breaks up the pairs");
}

}  // namespace

void validate(const PreferenceOptions& options) {
  check_losses(options);
  check_ranges(options);
  check_label_smoothing(options);
  check_options_of_single_losses(options);
  check_f_divergence(options);
  check_reference_free(options);
  check_token_weights(options);
}

}  // namespace reprise
