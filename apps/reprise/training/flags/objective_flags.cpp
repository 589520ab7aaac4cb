// Flags of the objectives. Each has only those that it uses.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_beta(FlagList& list) {
  list.add("beta", &Flags::beta, "NUMBER", "How strongly the policy is kept close to the reference")
      .above(0)
      .aliases({"model.beta", "loss.beta"});
}

void add_reference(FlagList& list, Objective objective) {
  list.add("precompute_ref_log_probs",
           &Flags::precompute_ref_log_probs,
           "BOOL",
           "Compute the reference's log-probabilities before training, cache them on disk and free "
           "the reference");
  if (objective !=
      Objective::Kto) {  // needs the batches of training, as it compares neighbouring rows
    list.add("precompute_ref_batch_size",
             &Flags::precompute_ref_batch_size,
             "ROWS",
             "Rows per batch while precomputing; 0: as in training")
        .at_least(0);
  }
  list.add("sync_ref_model",
           &Flags::sync_ref_model,
           "BOOL",
           "Update the reference towards the policy during training");
  list.add("ref_model_mixup_alpha",
           &Flags::ref_model_mixup_alpha,
           "FRACTION",
           "Fraction of the policy in the updated reference")
      .between(0, 1);
  list.add("ref_model_sync_steps",
           &Flags::ref_model_sync_steps,
           "STEPS",
           "Optimizer steps between updates of the reference")
      .at_least(1);
}

void add_dpo_losses(FlagList& list) {
  list.add("loss_type", &Flags::loss_type, "NAME...", "Loss, or several losses that are summed")
      .many_with_commas()
      .one_of({"sigmoid",  "dpo",      "hinge",    "ipo",       "ipo_sum",      "exo_pair",
               "nca_pair", "robust",   "bco_pair", "sppo_hard", "aot",          "aot_unpaired",
               "apo_zero", "apo_down", "discopop", "sft",       "sigmoid_norm", "simpo",
               "alphapo",  "cpo",      "orpo",     "orpo_token"});
  list.add("loss_weights", &Flags::loss_weights, "NUMBER...", "Weights of the losses")
      .many_with_commas()
      .if_unset("1 for each");
  add_beta(list);
  list.add("label_smoothing",
           &Flags::label_smoothing,
           "FRACTION",
           "Probability that a label is wrong; with sigmoid this is cDPO")
      .between(0, 0.5)
      .aliases({"model.label_smoothing", "loss.label_smoothing"});
  list.add("f_divergence_type",
           &Flags::f_divergence_type,
           "NAME",
           "Divergence between policy and reference")
      .one_of({"reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"});
  list.add("f_alpha_divergence_coef",
           &Flags::f_alpha_divergence_coef,
           "NUMBER",
           "alpha_divergence: alpha");
  list.add("discopop_tau", &Flags::discopop_tau, "NUMBER", "discopop: temperature").above(0);
  list.add("ld_alpha",
           &Flags::ld_alpha,
           "FRACTION",
           "LD-DPO: weight of tokens beyond the length of the shorter response")
      .between(0, 1)
      .if_unset("1, like other tokens");
  list.add(
      "use_weighting", &Flags::use_weighting, "BOOL", "WPO: weight pairs by their probability");
  list.add("simpo_gamma", &Flags::simpo_gamma, "NUMBER", "simpo, alphapo: margin").at_least(0);
  list.add("cpo_alpha", &Flags::cpo_alpha, "NUMBER", "simpo, cpo: weight of the cross entropy")
      .at_least(0);
  list.add(
      "alphapo_alpha", &Flags::alphapo_alpha, "NUMBER", "alphapo: alpha; 0: the score of simpo");
  list.add("nll_loss_coef",
           &Flags::nll_loss_coef,
           "NUMBER",
           "Weight of the cross entropy of the chosen response; 0: none")
      .at_least(0)
      .aliases({"model.nll_loss_coef"});
  list.add("reference_free",
           &Flags::reference_free,
           "BOOL",
           "Use a reference to which all responses are equally probable")
      .aliases({"loss.reference_free"});
}

void add_kto(FlagList& list) {
  list.add("loss_type", &Flags::loss_type, "NAME", "Loss").one_of({"kto", "apo_zero_unpaired"});
  list.add("kl_pairing",
           &Flags::kl_pairing,
           "NAME",
           "Mismatched pairs for the KL term: each prompt with the completion of the row before it "
           "(TRL) or after it (OpenRLHF)")
      .one_of({"previous", "next"});
  add_beta(list);
  list.add("desirable_weight", &Flags::desirable_weight, "NUMBER", "Weight of desirable responses")
      .at_least(0);
  list.add("undesirable_weight",
           &Flags::undesirable_weight,
           "NUMBER",
           "Weight of undesirable responses")
      .at_least(0);
}

void add_rm(FlagList& list) {
  list.add("loss_type", &Flags::loss_type, "NAME", "Loss").one_of({"sigmoid", "logexp"});
  list.add("center_rewards_coefficient",
           &Flags::center_rewards_coefficient,
           "NUMBER",
           "Weight of the squared sum of a pair's rewards, which keeps rewards centered at 0; 0: "
           "none")
      .at_least(0);
  list.add("use_margin", &Flags::use_margin, "BOOL", "Use the margins of rows that have one");
  list.add("pooling",
           &Flags::pooling,
           "NAME",
           "Token whose score is the reward: last_attended: the last one of the row; "
           "rightmost_not_pad: the last one that is not the pad token, as in TRL, which differs "
           "where rows end with the pad token")
      .one_of({"last_attended", "rightmost_not_pad"});
}

void add_prm(FlagList& list) {
  list.add("prm_convention",
           &Flags::prm_convention,
           "NAME",
           "step_ends: each step is judged at its last token; placeholders: at placeholder tokens "
           "in the text")
      .one_of({"step_ends", "placeholders"});
  list.add("step_separator", &Flags::step_separator, "TEXT", "step_ends: text after each step")
      .or_empty();
  list.add("train_on_last_step_only",
           &Flags::train_on_last_step_only,
           "BOOL",
           "step_ends: train on the label of the last step only");
  list.add("placeholder_token",
           &Flags::placeholder_token,
           "TOKEN",
           "placeholders: the token at which a step is judged");
  list.add("reward_tokens",
           &Flags::reward_tokens,
           "TOKEN...",
           "placeholders: the tokens that label a step; for soft labels, the good one first")
      .many()
      .if_unset("the whole vocabulary");
}

void add_kd(FlagList& list) {
  list.add("kd_coef",
           &Flags::kd_coef,
           "FRACTION",
           "Weight of the divergence; the rest is the weight of the cross entropy")
      .between(0, 1);
  list.add("divergence", &Flags::divergence, "NAME", "Divergence of the student from the teacher")
      .one_of({"forward_kl", "jsd"});
  list.add("jsd_beta", &Flags::jsd_beta, "FRACTION", "jsd: 0 is the forward KL, 1 the reverse KL")
      .between(0, 1);
  list.add("temperature", &Flags::temperature, "NUMBER", "Temperature of both distributions")
      .above(0);
}

void add_online(FlagList& list, Objective objective) {
  add_rollout_flags(list);
  add_reward_flags(list, objective);
  add_policy_flags(list, objective);
  if (objective == Objective::Ppo) {
    add_critic_flags(list);
    add_role_checkpointing_flags(list);
  }
}

}  // namespace

void add_objective_flags(FlagList& list, Objective objective) {
  switch (objective) {
    case Objective::Sft:
      list.begin_group("Fine-tuning");
      list.add("loss_type",
               &Flags::loss_type,
               "NAME",
               "nll: mean over all tokens of the step; sum: sum over tokens, mean over rows; dft: "
               "tokens weighted by their probability; chunked_nll: the same as nll")
          .one_of({"nll", "chunked_nll", "sum", "dft"});
      return;
    case Objective::Rm:
      list.begin_group("Reward model");
      return add_rm(list);
    case Objective::Prm:
      list.begin_group("Process reward model");
      return add_prm(list);
    case Objective::Dpo:
      list.begin_group("DPO");
      add_dpo_losses(list);
      return add_reference(list, objective);
    case Objective::Kto:
      list.begin_group("KTO");
      add_kto(list);
      return add_reference(list, objective);
    case Objective::Kd:
      list.begin_group("Distillation");
      return add_kd(list);
    case Objective::Grpo:
    case Objective::Ppo:
      return add_online(list, objective);
  }
}

}  // namespace reprise::app
