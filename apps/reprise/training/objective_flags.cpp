// Flags of the objectives: each has those that mean something for it.
#include "reprise/training/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_beta(FlagList& list) {
  list.add("beta", &Flags::beta, "NUMBER", "How much the policy is held to the reference")
      .above(0)
      .aliases({"model.beta", "loss.beta"});
}

void add_reference(FlagList& list, Objective objective) {
  list.add("precompute_ref_log_probs",
           &Flags::precompute_ref_log_probs,
           "BOOL",
           "Ask the reference before training, keep its answers on disk, and free it");
  if (objective != Objective::Kto) {  // whose rows are judged together with their neighbours
    list.add("precompute_ref_batch_size",
             &Flags::precompute_ref_batch_size,
             "ROWS",
             "Rows of a batch for that; 0: as in training")
        .at_least(0);
  }
  list.add("sync_ref_model", &Flags::sync_ref_model, "BOOL", "Let the reference follow the policy");
  list.add("ref_model_mixup_alpha",
           &Flags::ref_model_mixup_alpha,
           "SHARE",
           "Share of the policy in the reference that follows it")
      .between(0, 1);
  list.add("ref_model_sync_steps",
           &Flags::ref_model_sync_steps,
           "STEPS",
           "Optimizer steps between that")
      .at_least(1);
}

void add_dpo_losses(FlagList& list) {
  list.add("loss_type", &Flags::loss_type, "NAME...", "Losses, which are added")
      .many_with_commas()
      .one_of({"sigmoid",  "dpo",      "hinge",    "ipo",       "ipo_sum",      "exo_pair",
               "nca_pair", "robust",   "bco_pair", "sppo_hard", "aot",          "aot_unpaired",
               "apo_zero", "apo_down", "discopop", "sft",       "sigmoid_norm", "simpo",
               "alphapo",  "cpo",      "orpo",     "orpo_token"});
  list.add("loss_weights", &Flags::loss_weights, "NUMBER...", "Their weights")
      .many_with_commas()
      .if_unset("1 each");
  add_beta(list);
  list.add("label_smoothing",
           &Flags::label_smoothing,
           "SHARE",
           "Pairs whose label is taken to be wrong; of sigmoid that is cDPO")
      .between(0, 0.5)
      .aliases({"model.label_smoothing", "loss.label_smoothing"});
  list.add("f_divergence_type",
           &Flags::f_divergence_type,
           "NAME",
           "What is measured between policy and reference")
      .one_of({"reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"});
  list.add("f_alpha_divergence_coef",
           &Flags::f_alpha_divergence_coef,
           "NUMBER",
           "Alpha of alpha_divergence");
  list.add("discopop_tau", &Flags::discopop_tau, "NUMBER", "Temperature of discopop").above(0);
  list.add("ld_alpha",
           &Flags::ld_alpha,
           "SHARE",
           "LD-DPO: what tokens beyond the shorter response's length count")
      .between(0, 1)
      .if_unset("1, as all others");
  list.add("use_weighting", &Flags::use_weighting, "BOOL", "WPO: weigh pairs by their probability");
  list.add("simpo_gamma", &Flags::simpo_gamma, "NUMBER", "Margin of simpo and alphapo").at_least(0);
  list.add("cpo_alpha", &Flags::cpo_alpha, "NUMBER", "Weight of cross entropy in simpo and cpo")
      .at_least(0);
  list.add("alphapo_alpha", &Flags::alphapo_alpha, "NUMBER", "Alpha of alphapo; 0: simpo's score");
  list.add("nll_loss_coef",
           &Flags::nll_loss_coef,
           "NUMBER",
           "Weight of the cross entropy of the chosen response; 0: none")
      .at_least(0)
      .aliases({"model.nll_loss_coef"});
  list.add("reference_free",
           &Flags::reference_free,
           "BOOL",
           "A reference to which all responses are equally probable")
      .aliases({"loss.reference_free"});
}

void add_kto(FlagList& list) {
  list.add("loss_type", &Flags::loss_type, "NAME", "Loss").one_of({"kto", "apo_zero_unpaired"});
  list.add("kl_pairing",
           &Flags::kl_pairing,
           "NAME",
           "Whose completion the KL term puts to a prompt: the row's before (TRL) or after "
           "(OpenRLHF)")
      .one_of({"previous", "next"});
  add_beta(list);
  list.add("desirable_weight", &Flags::desirable_weight, "NUMBER", "Of desirable responses")
      .at_least(0);
  list.add("undesirable_weight", &Flags::undesirable_weight, "NUMBER", "Of undesirable ones")
      .at_least(0);
}

void add_rm(FlagList& list) {
  list.add("loss_type", &Flags::loss_type, "NAME", "Loss").one_of({"sigmoid", "logexp"});
  list.add("center_rewards_coefficient",
           &Flags::center_rewards_coefficient,
           "NUMBER",
           "Weight of the square of rewards' sums, which keeps them around 0; 0: none")
      .at_least(0);
  list.add("use_margin", &Flags::use_margin, "BOOL", "Take the rows' margins, where they have one");
  list.add("pooling", &Flags::pooling, "NAME", "Token whose score is the reward")
      .one_of({"rightmost_not_pad", "last_attended"});
}

void add_prm(FlagList& list) {
  list.add("prm_convention",
           &Flags::prm_convention,
           "NAME",
           "Where steps are judged: at their last token, or at tokens put in for that")
      .one_of({"step_ends", "placeholders"});
  list.add("step_separator", &Flags::step_separator, "TEXT", "step_ends: put behind each step")
      .or_empty();
  list.add("train_on_last_step_only",
           &Flags::train_on_last_step_only,
           "BOOL",
           "step_ends: judge the last step only");
  list.add("placeholder_token",
           &Flags::placeholder_token,
           "TOKEN",
           "placeholders: the token that stands for a judgement");
  list.add("reward_tokens",
           &Flags::reward_tokens,
           "TOKEN...",
           "placeholders: the tokens that judge, for soft labels the good one first")
      .many()
      .if_unset("the whole vocabulary");
}

void add_kd(FlagList& list) {
  list.add("kd_coef", &Flags::kd_coef, "SHARE", "Of the divergence; the rest is cross entropy")
      .between(0, 1);
  list.add("divergence", &Flags::divergence, "NAME", "Of the student from the teacher")
      .one_of({"forward_kl", "jsd"});
  list.add("jsd_beta", &Flags::jsd_beta, "SHARE", "jsd: 0 is the forward KL, 1 the reverse")
      .between(0, 1);
  list.add("temperature", &Flags::temperature, "NUMBER", "Divides the logits of both").above(0);
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
               "nll: mean over all tokens of the step; sum: tokens summed, mean over rows; dft: "
               "tokens weighted by their probability; chunked_nll: another name of nll")
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
