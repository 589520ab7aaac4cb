// Which options each policy loss supports. An option without effect is refused: otherwise the user
// would notice only after the run that it was ignored.
#include "loss/policy/policy_traits.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace reprise {

namespace {

void check_effect(const PolicyOptions& options,
                  bool is_wrong,
                  const char* option,
                  const char* advice) {
  TORCH_CHECK(
      !is_wrong, "[policy] ", option, " has no effect on ", name_of(options.loss), ". ", advice);
}

void check_positive(double value, const char* option) {
  TORCH_CHECK(
      value > 0 && std::isfinite(value), "[policy] ", option, " must be positive, found ", value);
}

void check_not_negative(double value, const char* option) {
  TORCH_CHECK(value >= 0 && std::isfinite(value),
              "[policy] ",
              option,
              " must not be negative, found ",
              value);
}

void check_clip(const PolicyOptions& options) {
  const auto uses = traits_of(options.loss);
  const bool is_cispo = options.loss == PolicyLoss::Cispo;
  const bool has_epsilon = options.epsilon != PolicyOptions{}.epsilon;
  check_positive(options.epsilon, "epsilon");
  check_positive(upper_epsilon(options), "epsilon_high");
  TORCH_CHECK(!uses.clip || options.epsilon < 1,
              "[policy] epsilon must be below 1, since ratios are never below 0; found ",
              options.epsilon);
  check_effect(options,
               !uses.clip && !is_cispo && (has_epsilon || options.epsilon_high),
               "epsilon",
               "It bounds the ratio by itself");
  check_effect(options,
               is_cispo && has_epsilon && options.epsilon_high.has_value(),
               "epsilon",
               "Ratios are capped at epsilon_high only");
  check_effect(options,
               options.delta && !uses.delta,
               "delta",
               "It is for grpo, bnpo, dr_grpo, dapo and luspo; ppo has dual_clip");
  TORCH_CHECK(!options.delta || *options.delta > 1 + upper_epsilon(options),
              "[policy] delta must be above 1 + epsilon_high = ",
              1 + upper_epsilon(options),
              ", found ",
              options.delta.value_or(0));
  check_effect(options,
               options.dual_clip && options.loss != PolicyLoss::Ppo,
               "dual_clip",
               "It is for ppo; grpo, bnpo, dr_grpo, dapo and luspo have delta");
  TORCH_CHECK(!options.dual_clip || *options.dual_clip > 1,
              "[policy] dual_clip must be above 1, found ",
              options.dual_clip.value_or(0));
}

void check_level(const PolicyOptions& options) {
  const char* advice = "Its ratio is already per sequence";
  if (options.loss == PolicyLoss::Ppo) {
    advice = "For GSPO use grpo, whose mean is over sequences";
  }
  check_effect(options,
               options.level == RatioLevel::Sequence && !traits_of(options.loss).sequence_level,
               "importance_sampling_level sequence",
               advice);
}

void check_kl(const PolicyOptions& options) {
  check_not_negative(options.beta, "beta");
  if (options.kl_clamp) {
    check_positive(*options.kl_clamp, "kl_clamp");
  }
  TORCH_CHECK(
      options.beta == 0 || traits_of(options.loss).tokens,
      "[policy] ",
      name_of(options.loss),
      " has its KL in the reward: pass beta times the KL as penalties to group_advantages()");
  TORCH_CHECK(options.beta > 0 || (options.kl == PolicyOptions{}.kl && !options.kl_clamp &&
                                   options.kl_bias_correction),
              "[policy] kl_estimator, kl_clamp and use_bias_correction_kl have no effect on a loss "
              "without a KL. Set beta above 0");
}

void check_sapo_and_vespo(const PolicyOptions& options) {
  const PolicyOptions defaults;
  check_positive(options.sapo_temperature_positive, "sapo_temperature_pos");
  check_positive(options.sapo_temperature_negative, "sapo_temperature_neg");
  check_effect(options,
               options.loss != PolicyLoss::Sapo &&
                   (options.sapo_temperature_positive != defaults.sapo_temperature_positive ||
                    options.sapo_temperature_negative != defaults.sapo_temperature_negative),
               "sapo_temperature",
               "It is for sapo");
  check_not_negative(options.vespo_k_positive, "vespo_k_pos");
  check_not_negative(options.vespo_k_negative, "vespo_k_neg");
  check_positive(options.vespo_lambda_positive, "vespo_lambda_pos");
  check_positive(options.vespo_lambda_negative, "vespo_lambda_neg");
  check_effect(options,
               options.loss != PolicyLoss::Vespo &&
                   (options.vespo_k_positive != defaults.vespo_k_positive ||
                    options.vespo_k_negative != defaults.vespo_k_negative ||
                    options.vespo_lambda_positive != defaults.vespo_lambda_positive ||
                    options.vespo_lambda_negative != defaults.vespo_lambda_negative),
               "vespo_k or vespo_lambda",
               "It is for vespo");
}

void check_tokens(const PolicyOptions& options) {
  check_not_negative(options.entropy_coef, "entropy_coef");
  const double share = options.top_entropy_quantile;
  TORCH_CHECK(share > 0 && share <= 1,
              "[policy] top_entropy_quantile is a share of the tokens, in (0, 1]; found ",
              share);
  check_effect(options,
               share < 1 && !traits_of(options.loss).tokens,
               "top_entropy_quantile",
               "Its loss is per sequence");
  if (options.off_policy_threshold) {
    check_not_negative(*options.off_policy_threshold, "off_policy_mask_threshold");
  }
}

void check_mismatch(const PolicyOptions& options) {
  const bool has_range = options.mismatch_least || options.mismatch_greatest;
  if (options.mismatch == MismatchCorrection::None) {
    TORCH_CHECK(!has_range,
                "[policy] a range of importance ratios has no effect without a correction. Choose "
                "one, such as token_truncate");
    return;
  }
  TORCH_CHECK(has_range,
              "[policy] the mismatch correction needs a range of importance ratios: a lower bound, "
              "an upper bound (TRL: 3), or both (OpenRLHF: 0.5 and 5)");
  const double least = options.mismatch_least.value_or(0);
  TORCH_CHECK(
      least >= 0 && (!options.mismatch_greatest || least < *options.mismatch_greatest),
      "[policy] the bounds of importance ratios must not be negative, and the lower one must "
      "be below the upper one; found ",
      least,
      " and ",
      options.mismatch_greatest.value_or(0));
  check_effect(options,
               !traits_of(options.loss).tokens,
               "the mismatch correction",
               "Its ratio can compare with the sampler directly: pass its log-probabilities as "
               "old_logprobs");
  TORCH_CHECK(options.loss != PolicyLoss::Vespo ||
                  options.mismatch == MismatchCorrection::TokenTruncate ||
                  options.mismatch == MismatchCorrection::TokenMask,
              "[policy] vespo itself multiplies the importance ratios of tokens: use "
              "token_truncate or token_mask");
}

}  // namespace

void validate(const PolicyOptions& options) {
  check_clip(options);
  check_level(options);
  check_kl(options);
  check_sapo_and_vespo(options);
  check_tokens(options);
  check_mismatch(options);
}

}  // namespace reprise
