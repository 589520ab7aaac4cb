// Flags of what the policy learns by: advantages, its loss, and its distance from the reference.
#include "reprise/training/flag_spec.h"

#include <string>
#include <utility>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_advantages(FlagList& list) {
  list.add(
          "advantage_estimator",
          &Flags::advantage_estimator,
          "NAME",
          "How a completion is compared: with its group (grpo, group_norm), with the others of its "
          "group (rloo), not at all (reinforce), or by less than its group's mean "
          "(reinforce_baseline)")
      .one_of({"grpo", "group_norm", "rloo", "reinforce", "reinforce_baseline"})
      .aliases({"algo.advantage.estimator"});
  list.add("scale_rewards",
           &Flags::scale_rewards,
           "NAME",
           "grpo: whose deviation advantages are divided by; true is group, false is none")
      .one_of({"group", "batch", "none", "true", "false"});
  list.add("multi_objective_aggregation",
           &Flags::multi_objective_aggregation,
           "NAME",
           "grpo: whether several rewards are summed first, or each normalised first (GDPO)")
      .one_of({"sum_then_normalize", "normalize_then_sum"});
  list.add("normalize_advantages",
           &Flags::normalize_advantages,
           "BOOL",
           "rloo: bring advantages to mean 0 and deviation 1 over the generation batch");
}

// Of estimators whose advantages are those of tokens.
void add_token_advantages(FlagList& list, Objective objective) {
  const std::string of = objective == Objective::Grpo ? "reinforce, reinforce_baseline: " : "";
  list.add("gamma", &Flags::gamma, "SHARE", of + "what a reward counts one token earlier")
      .between(0, 1)
      .aliases({"algo.advantage.gamma"});
  list.add("whitening",
           &Flags::whitening,
           "NAME",
           of + "how advantages are brought to mean 0 and deviation 1; mean_only leaves the latter")
      .one_of({"openrlhf", "trl", "mean_only"});
}

void add_clip(FlagList& list, Objective objective) {
  list.add("epsilon", &Flags::epsilon, "NUMBER", "How far below 1, and above, a ratio counts")
      .above(0)
      .aliases({"eps_clip", "cliprange", "actor.eps_clip"});
  list.add("epsilon_high", &Flags::epsilon_high, "NUMBER", "How far above; of cispo, the limit")
      .above(0)
      .if_unset("as epsilon");
  if (objective == Objective::Grpo) {
    list.add("delta", &Flags::delta, "NUMBER", "A ratio above it does not count at all").above(1);
  }
  list.add("dual_clip",
           &Flags::dual_clip,
           "NUMBER",
           "Loss ppo: limit of what a negative advantage can cost, in its multiples")
      .above(1)
      .aliases({"actor.dual_clip"});
}

void add_variants(FlagList& list) {
  list.add("importance_sampling_level",
           &Flags::importance_sampling_level,
           "NAME",
           "Whether a token has a ratio, or a sequence (GSPO)")
      .one_of({"token", "sequence"});
  const std::pair<const char*, double Flags::*> numbers[] = {
      {"sapo_temperature_pos", &Flags::sapo_temperature_pos},
      {"sapo_temperature_neg", &Flags::sapo_temperature_neg},
      {"vespo_k_pos", &Flags::vespo_k_pos},
      {"vespo_lambda_pos", &Flags::vespo_lambda_pos},
      {"vespo_k_neg", &Flags::vespo_k_neg},
      {"vespo_lambda_neg", &Flags::vespo_lambda_neg}};
  for (const auto& [name, member] : numbers) {
    const std::string text = name;
    const std::string sign = text.ends_with("pos") ? "positive" : "negative";
    list.add(name,
             member,
             "NUMBER",
             "Of " + text.substr(0, text.find('_')) + ", where the advantage is " + sign)
        .at_least(0);
  }
}

void add_tokens(FlagList& list) {
  list.add("mask_truncated_completions",
           &Flags::mask_truncated_completions,
           "BOOL",
           "Do not learn from completions that did not end");
  list.add(
          "entropy_coef", &Flags::entropy_coef, "NUMBER", "Reward for entropy in the loss; 0: none")
      .at_least(0)
      .aliases({"actor.entropy_coef"});
  list.add("top_entropy_quantile",
           &Flags::top_entropy_quantile,
           "SHARE",
           "Learn only from these tokens, the most uncertain ones")
      .between(0, 1);
  list.add(
          "off_policy_mask_threshold",
          &Flags::off_policy_mask_threshold,
          "NUMBER",
          "Sequences with a negative advantage that have become less likely than by this, a token, "
          "are dropped")
      .at_least(0);
  list.add("importance_sampling_correction",
           &Flags::importance_sampling_correction,
           "NAME",
           "Weigh tokens by how much likelier they are in training than they were in sampling")
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
           "Least weight of that")
      .at_least(0)
      .if_unset("none; of tis, icepop and seq-mask-tis 0.5")
      .aliases({"vllm_importance_sampling_clip_min"});
  list.add("importance_sampling_clip_max",
           &Flags::importance_sampling_clip_max,
           "NUMBER",
           "Greatest weight of that")
      .above(0)
      .if_unset("3; of tis, icepop and seq-mask-tis 5")
      .aliases({"vllm_importance_sampling_clip_max"});
}

void add_kl(FlagList& list) {
  list.add("beta", &Flags::beta, "NUMBER", "KL from the reference, in the loss; 0: none")
      .at_least(0);
  list.add("kl_coef", &Flags::kl_coef, "NUMBER", "KL from the reference, in the reward; 0: none")
      .at_least(0)
      .aliases({"init_kl_coef", "algo.kl.init_coef"});
  list.add("kl_estimator", &Flags::kl_estimator, "NAME", "How it is estimated from what is sampled")
      .one_of({"k1", "k2", "k3"})
      .if_unset("k3 in the loss, k1 in the reward")
      .aliases({"algo.kl.estimator"});
  list.add("use_bias_correction_kl",
           &Flags::use_bias_correction_kl,
           "BOOL",
           "In the loss: the KL times the ratio, so that its gradient is that of the KL");
  list.add("kl_target",
           &Flags::kl_target,
           "NATS",
           "kl_coef adapts until the KL of a completion is this")
      .above(0)
      .if_unset("kl_coef stays")
      .aliases({"algo.kl.target"});
  list.add("kl_horizon",
           &Flags::kl_horizon,
           "SAMPLES",
           "In which kl_coef changes by a fifth at most")
      .above(0)
      .aliases({"algo.kl.horizon"});
  list.add("offload_reference",
           &Flags::offload_reference,
           "BOOL",
           "Keep the reference's weights on the CPU between its passes")
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
             "docs/rl.md has their formulas; gspo is grpo with ratios of sequences. Unless given, "
             "that of the estimator: rloo of rloo, ppo of both reinforce")
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
