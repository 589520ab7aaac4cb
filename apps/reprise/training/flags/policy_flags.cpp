// Flags for the policy of grpo and ppo: advantages, loss, and KL from the reference.
#include "reprise/training/flags/flag_spec.h"

#include <string>
#include <utility>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_advantages(FlagList& list) {
  list.add("advantage_estimator",
           &Flags::advantage_estimator,
           "NAME",
           "Baseline of a completion's reward: mean and deviation of its group (grpo, group_norm), "
           "mean of the others in its group (rloo), none (reinforce), or mean of its group "
           "(reinforce_baseline)")
      .one_of({"grpo", "group_norm", "rloo", "reinforce", "reinforce_baseline"})
      .aliases({"algo.advantage.estimator"});
  list.add("scale_rewards",
           &Flags::scale_rewards,
           "NAME",
           "grpo: which standard deviation advantages are divided by; true means group, false none")
      .one_of({"group", "batch", "none", "true", "false"});
  list.add(
          "multi_objective_aggregation",
          &Flags::multi_objective_aggregation,
          "NAME",
          "grpo: with several rewards, sum them and then normalise, or normalise each first (GDPO)")
      .one_of({"sum_then_normalize", "normalize_then_sum"});
  list.add(
      "normalize_advantages",
      &Flags::normalize_advantages,
      "BOOL",
      "rloo: normalise advantages to mean 0 and standard deviation 1 over the generation batch");
}

// For estimators with one advantage per token.
void add_token_advantages(FlagList& list, Objective objective) {
  const std::string of = objective == Objective::Grpo ? "reinforce, reinforce_baseline: " : "";
  list.add("gamma", &Flags::gamma, "FRACTION", of + "Discount factor per token")
      .between(0, 1)
      .aliases({"algo.advantage.gamma"});
  list.add("whitening",
           &Flags::whitening,
           "NAME",
           of + "How advantages are normalised to mean 0 and standard deviation 1; mean_only: mean "
                "0 only")
      .one_of({"openrlhf", "trl", "mean_only"});
}

void add_clip(FlagList& list, Objective objective) {
  list.add("epsilon",
           &Flags::epsilon,
           "NUMBER",
           "Clip the probability ratio at 1 - epsilon and 1 + epsilon")
      .above(0)
      .aliases({"eps_clip", "cliprange", "actor.eps_clip"});
  list.add("epsilon_high",
           &Flags::epsilon_high,
           "NUMBER",
           "Clip at 1 + epsilon_high instead; cispo: the upper limit of the ratio")
      .above(0)
      .if_unset("the value of --epsilon");
  if (objective == Objective::Grpo) {
    list.add("delta",
             &Flags::delta,
             "NUMBER",
             "Two-sided clipping: upper limit of the ratio, which also holds for negative "
             "advantages")
        .above(1);
  }
  list.add("dual_clip",
           &Flags::dual_clip,
           "NUMBER",
           "Loss ppo: upper limit of the loss for negative advantages, as a multiple of the "
           "advantage")
      .above(1)
      .aliases({"actor.dual_clip"});
}

void add_variants(FlagList& list) {
  list.add("importance_sampling_level",
           &Flags::importance_sampling_level,
           "NAME",
           "Compute the ratio per token or per sequence (GSPO)")
      .one_of({"token", "sequence"});
  const std::pair<const char*, double Flags::*> numbers[] = {
      {"sapo_temperature_pos", &Flags::sapo_temperature_pos},
      {"sapo_temperature_neg", &Flags::sapo_temperature_neg},
      {"vespo_k_pos", &Flags::vespo_k_pos},
      {"vespo_lambda_pos", &Flags::vespo_lambda_pos},
      {"vespo_k_neg", &Flags::vespo_k_neg},
      {"vespo_lambda_neg", &Flags::vespo_lambda_neg}};
  for (const auto& [name, member] : numbers) {
    const std::string text = name;  // <loss>_<parameter>_<sign>
    const size_t first = text.find('_'), last = text.rfind('_');
    const std::string parameter = text.substr(first + 1, last - first - 1);
    const std::string sign = text.ends_with("pos") ? "positive" : "negative";
    list.add(name,
             member,
             "NUMBER",
             text.substr(0, first) + ": " + parameter + " for " + sign + " advantages")
        .at_least(0);
  }
}

void add_tokens(FlagList& list) {
  list.add("mask_truncated_completions",
           &Flags::mask_truncated_completions,
           "BOOL",
           "Do not train on completions that were truncated");
  list.add("entropy_coef",
           &Flags::entropy_coef,
           "NUMBER",
           "Weight of the entropy bonus in the loss; 0: none")
      .at_least(0)
      .aliases({"actor.entropy_coef"});
  list.add("top_entropy_quantile",
           &Flags::top_entropy_quantile,
           "FRACTION",
           "Train only on this fraction of tokens, those with the highest entropy")
      .between(0, 1);
  list.add("off_policy_mask_threshold",
           &Flags::off_policy_mask_threshold,
           "NUMBER",
           "Drop sequences with a negative advantage whose log-probability per token has fallen by "
           "more than this")
      .at_least(0);
  list.add("importance_sampling_correction",
           &Flags::importance_sampling_correction,
           "NAME",
           "Importance weights for the difference between training and sampling probabilities")
      .one_of({"none",
               "token_truncate",
               "tis",
               "token_mask",
               "icepop",
               "sequence_truncate",
               "sequence_mask",
               "seq-mask-tis"})
      .aliases({"importance_correction",
                "vllm_importance_sampling_mode",
                "algo.advantage.is_correction_type"});
  list.add("importance_sampling_clip_min",
           &Flags::importance_sampling_clip_min,
           "NUMBER",
           "Lower limit of these weights")
      .at_least(0)
      .if_unset("none; 0.5 for tis, icepop and seq-mask-tis")
      .aliases({"vllm_importance_sampling_clip_min"});
  list.add("importance_sampling_clip_max",
           &Flags::importance_sampling_clip_max,
           "NUMBER",
           "Upper limit of these weights")
      .above(0)
      .if_unset("3; 5 for tis, icepop and seq-mask-tis")
      .aliases({"vllm_importance_sampling_clip_max"});
}

void add_kl(FlagList& list) {
  list.add("beta",
           &Flags::beta,
           "NUMBER",
           "Weight of the KL from the reference in the loss; 0: none")
      .at_least(0);
  list.add("kl_coef",
           &Flags::kl_coef,
           "NUMBER",
           "Weight of the KL from the reference in the reward; 0: none")
      .at_least(0)
      .aliases({"init_kl_coef", "algo.kl.init_coef"});
  list.add("kl_estimator", &Flags::kl_estimator, "NAME", "Estimator of the KL")
      .one_of({"k1", "k2", "k3"})
      .if_unset("k3 in the loss, k1 in the reward")
      .aliases({"algo.kl.estimator"});
  list.add("use_bias_correction_kl",
           &Flags::use_bias_correction_kl,
           "BOOL",
           "Multiply the KL in the loss by the ratio, so that its gradient is unbiased");
  list.add("kl_target", &Flags::kl_target, "NATS", "Adapt kl_coef towards this KL per completion")
      .above(0)
      .if_unset("kl_coef is constant")
      .aliases({"algo.kl.target"});
  list.add("kl_horizon",
           &Flags::kl_horizon,
           "SAMPLES",
           "Number of samples in which kl_coef changes by at most 20 %")
      .above(0)
      .aliases({"algo.kl.horizon"});
  list.add("offload_reference",
           &Flags::offload_reference,
           "BOOL",
           "Keep the reference's weights in CPU memory between its forward passes")
      .aliases({"ref.offload"});
}

}  // namespace

void add_policy_flags(FlagList& list, Objective objective) {
  list.begin_group("Advantages");
  if (objective == Objective::Grpo) {
    add_advantages(list);
  }
  add_token_advantages(list, objective);
  list.begin_group("Loss of the policy");
  if (objective == Objective::Grpo) {
    list.add("loss_type",
             &Flags::loss_type,
             "NAME",
             "Loss; docs/rl.md has the formulas. gspo is grpo with one ratio per sequence. Unless "
             "given, it follows the estimator: rloo for rloo, ppo for reinforce and "
             "reinforce_baseline")
        .one_of({"grpo",
                 "bnpo",
                 "dr_grpo",
                 "dapo",
                 "luspo",
                 "cispo",
                 "sapo",
                 "vespo",
                 "ppo",
                 "rloo",
                 "gspo"})
        .aliases({"actor.policy_loss_type"});
    add_variants(list);
  }
  add_clip(list, objective);
  add_tokens(list);
  list.begin_group("Reference");
  add_kl(list);
}

}  // namespace reprise::app
