#include "train/online/online_advantages.h"

#include "train/online/online_options.h"

#include <ATen/ATen.h>

#include <optional>

namespace reprise {

namespace {

// Scores of whole completions, less the penalties for their length and a missing end.
at::Tensor scores_of(const Completions& completions,
                     const Experience& experience,
                     const OnlineOptions& options) {
  auto scores = completions.combined;
  if (options.missing_eos_penalty > 0) {
    scores = with_missing_eos_penalty(scores, completions.finished, options.missing_eos_penalty);
  }
  if (options.overlong_buffer > 0) {
    scores = with_overlong_penalty(scores,
                                   experience.lengths,
                                   {options.rollout.generate.max_new_tokens,
                                    options.overlong_buffer,
                                    options.overlong_factor});
  }
  return scores;
}

// KL per token, (N, C), 0 outside the mask; undefined if it is not part of the reward.
at::Tensor kl_of(const Experience& experience, const OnlineOptions& options) {
  if (options.kl_reward_coef == 0) {
    return {};
  }
  const auto& sampled =
      experience.old_logprobs.defined() ? experience.old_logprobs : experience.sampling_logprobs;
  return kl_estimate(sampled, experience.reference_logprobs, options.kl_reward)
      .masked_fill(experience.mask.logical_not(), 0);
}

// Adapts the coefficient for the next batch; this batch uses the current one.
void note_kl(const at::Tensor& kl,
             const at::Tensor& mask,
             const OnlineOptions& options,
             double& coefficient,
             Json& metrics) {
  const double counted = mask.any(1).sum().item<double>();
  const double mean = counted > 0 ? kl.sum().item<double>() / counted : 0;
  metrics["objective/kl"] = mean;
  metrics["kl_coef"] = coefficient;
  if (options.kl_target) {
    AdaptiveKl controller{coefficient, *options.kl_target, options.kl_horizon};
    controller.update(mean, kl.size(0));
    coefficient = controller.value;
  }
}

}  // namespace

void add_advantages(const Completions& completions,
                    const RewardList& rewards,
                    const OnlineOptions& options,
                    Experience& experience,
                    double& kl_coef,
                    Json& metrics) {
  const auto& mask = experience.mask;
  const auto scores = scores_of(completions, experience, options);
  const auto kl = kl_of(experience, options);
  const double coefficient = kl_coef;
  if (kl.defined()) {
    note_kl(kl, mask, options, kl_coef, metrics);
  }
  const auto of_groups = [&](const at::Tensor& penalties) {
    const auto group = group_options(options);
    // Scores with penalties count as one source; otherwise all sources are normalised.
    return scores.is_same(completions.combined)
               ? group_advantages(completions.rewards,
                                  at::tensor(rewards.weights()).to(at::kFloat),
                                  group,
                                  penalties)
               : group_advantages(scores.unsqueeze(1), at::ones({1}), group, penalties);
  };
  const auto of_tokens = [&](const at::Tensor& of_sequences) {
    return token_rewards(of_sequences.nan_to_num(0),
                         kl,
                         mask,
                         {kl.defined() ? coefficient : 0, options.score_place, options.score_clip});
  };
  const auto returns_of = [&](const at::Tensor& of_sequences) {
    return whitened(
        discounted_returns(of_tokens(of_sequences), mask, options.gamma), mask, options.whitening);
  };
  switch (options.estimator) {
    case OnlineEstimator::Grpo:
      experience.advantages = of_groups({});
      return;
    case OnlineEstimator::Rloo:
      experience.advantages = of_groups(kl.defined() ? kl.sum(1) * coefficient : at::Tensor());
      return;
    case OnlineEstimator::ReinforceBaseline:
      experience.advantages = returns_of(of_groups({}));
      return;
    case OnlineEstimator::Reinforce:
      experience.advantages = returns_of(scores);
      return;
    case OnlineEstimator::Gae: {
      const auto both = generalized_advantages(
          experience.values, of_tokens(scores), mask, options.gamma, options.lambda);
      experience.returns = both.returns;
      experience.advantages = whitened(both.advantages, mask, options.whitening);
      metrics["critic/explained_variance"] =
          explained_variance(experience.values, both.returns, mask).item<double>();
      return;
    }
  }
}

}  // namespace reprise
