// Refuses flags of grpo and ppo that contradict each other or would be ignored.
#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/flag_spec.h"
#include "reprise/training/options/online_options.h"
#include "reprise/training/options/role_checkpointing.h"

#include <reprise/dist/connect.h>
#include <reprise/reward/url.h>

#include <c10/util/Exception.h>

namespace reprise::app {

namespace {

bool learns_once(const TrainingFlags& flags) {
  return flags.num_iterations == 1 &&
         flags.steps_per_generation <= flags.gradient_accumulation_steps;
}

void check_groups(const TrainingFlags& flags) {
  const auto estimator = parse_online_estimator(flags.advantage_estimator);
  TORCH_CHECK(flags.num_generations > 1 || !compares_groups(estimator),
              "--num_generations 1: ",
              flags.advantage_estimator,
              " compares the completions of a prompt with each other, so with one it would train "
              "on nothing; give 2 or more, or --advantage_estimator reinforce");
  const int64_t accumulation = flags.gradient_accumulation_steps;
  const int64_t micro_batches =
      flags.steps_per_generation > 0 ? flags.steps_per_generation : accumulation;
  TORCH_CHECK(micro_batches % accumulation == 0,
              "--steps_per_generation ",
              micro_batches,
              " is not a multiple of --gradient_accumulation_steps ",
              accumulation,
              ": an optimizer step would mix two generations");
  const int64_t completions = flags.per_device_train_batch_size * micro_batches;
  TORCH_CHECK(
      completions % flags.num_generations == 0,
      "--per_device_train_batch_size ",
      flags.per_device_train_batch_size,
      " x ",
      flags.steps_per_generation > 0 ? "--steps_per_generation " : "--gradient_accumulation_steps ",
      micro_batches,
      " are ",
      completions,
      " completions per generation, which is not a multiple of --num_generations ",
      flags.num_generations);
}

void check_range(const TrainingFlags& flags, const char* name, const std::vector<double>& range) {
  if (flags.given.contains(name)) {
    TORCH_CHECK(range.size() == 2 && range[0] < range[1],
                "--",
                name,
                ": expected two numbers, the minimum and the maximum");
  }
}

void check_sources(const TrainingFlags& flags) {
  const size_t sources = flags.reward_model.size() + flags.reward_function.size() +
                         (flags.reward_command.empty() ? 0 : 1) +
                         (flags.reward_url.empty() ? 0 : 1);
  TORCH_CHECK(sources > 0,
              "there is no reward to learn from: give --reward_model, --reward_function, "
              "--reward_command or --reward_url");
  TORCH_CHECK(flags.reward_weights.empty() || flags.reward_weights.size() == sources,
              "--reward_weights has ",
              flags.reward_weights.size(),
              " weights for ",
              sources,
              " rewards");
  if (flags.reward_model.empty()) {
    refuse(flags,
           {"reward_batch_size",
            "reward_text",
            "reward_pooling",
            "normalize_reward",
            "offload_reward"},
           "without --reward_model");
  }
  if (!flags.reward_url.empty()) {
    // As training.yaml has it, if the user's had a password or a query.
    TORCH_CHECK(flags.reward_url.find(kRedacted) == std::string::npos,
                "--reward_url ",
                flags.reward_url,
                ": passwords and queries are not saved. Give --reward_url again, or a token by "
                "--reward_auth_file or REPRISE_REWARD_TOKEN");
    make_url_reward({.url = flags.reward_url});  // throws before anything quotes a wrong URL
  } else {
    refuse(flags, {"reward_url_format", "reward_auth_file"}, "without --reward_url");
    if (flags.reward_command.empty()) {
      refuse(flags, {"reward_timeout"}, "without --reward_command or --reward_url");
    }
  }
}

void check_shaping(const TrainingFlags& flags) {
  check_range(flags, "reward_clip_range", flags.reward_clip_range);
  check_range(flags, "filter_range", flags.filter_range);
  if (flags.overlong_buffer == 0) {
    refuse(flags, {"overlong_factor"}, "without --overlong_buffer");
  }
  TORCH_CHECK(flags.overlong_buffer <= flags.max_completion_length,
              "--overlong_buffer ",
              flags.overlong_buffer,
              " is more than --max_completion_length ",
              flags.max_completion_length);
  if (!flags.dynamic_filtering) {
    refuse(flags, {"filter_range", "filter_attempts"}, "without --dynamic_filtering");
  }
  TORCH_CHECK(!flags.dynamic_filtering || flags.num_generations > 1,
              "--dynamic_filtering needs --num_generations of 2 or more, whose rewards can differ");
}

void check_advantages(const TrainingFlags& flags) {
  const std::string& estimator = flags.advantage_estimator;
  const std::string with_estimator = "with --advantage_estimator " + estimator;
  const bool is_grpo = estimator == "grpo" || estimator == "group_norm";
  if (!is_grpo) {
    refuse(flags, {"scale_rewards", "multi_objective_aggregation"}, with_estimator);
  }
  if (estimator != "rloo") {
    refuse(flags, {"normalize_advantages"}, with_estimator + ": it is for rloo");
  }
  if (is_grpo || estimator == "rloo") {
    refuse(flags, {"gamma", "whitening"}, with_estimator + ", whose advantages are of completions");
  }
  if (is_grpo) {
    refuse(flags,
           {"kl_coef", "kl_target", "kl_horizon"},
           with_estimator +
               ", whose KL is in the "
               "loss: give --beta");
  }
}

void check_loss(const TrainingFlags& flags) {
  const std::string& loss = flags.loss_type.front();
  const std::string with_loss = "with --loss_type " + loss;
  if (loss != "sapo") {
    refuse(flags, {"sapo_temperature_pos", "sapo_temperature_neg"}, with_loss);
  }
  if (loss != "vespo") {
    refuse(
        flags, {"vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"}, with_loss);
  }
  if (loss == "sapo" || loss == "vespo") {
    refuse(flags, {"epsilon", "epsilon_high"}, with_loss + ", which bounds the ratio by itself");
  }
  if (loss == "rloo") {
    refuse(flags, {"beta"}, with_loss + ", whose KL is in the reward: give --kl_coef");
  }
  if (learns_once(flags) && loss != "cispo") {
    refuse(flags,
           {"epsilon", "epsilon_high", "delta", "dual_clip"},
           "when a generation is learned from once: the ratio is 1 then. See --num_iterations and "
           "--steps_per_generation");
  }
  if (flags.importance_sampling_correction == "none") {
    refuse(flags,
           {"importance_sampling_clip_min", "importance_sampling_clip_max"},
           "without --importance_sampling_correction");
  }
}

void check_reference(const TrainingFlags& flags) {
  if (flags.beta == 0) {
    refuse(flags, {"use_bias_correction_kl"}, "without --beta: there is no KL in the loss");
  }
  if (flags.beta == 0 && flags.kl_coef == 0) {
    refuse(flags,
           {"kl_estimator", "ref_model", "offload_reference"},
           "without --beta or --kl_coef: there is no reference");
  }
  if (flags.kl_coef == 0) {
    refuse(flags, {"kl_target"}, "without --kl_coef, which it adapts");
  }
  if (!flags.kl_target) {
    refuse(flags, {"kl_horizon"}, "without --kl_target");
  }
  if (trains_lora(flags)) {
    refuse(flags,
           {"ref_model", "offload_reference"},
           "with LoRA: the reference is the model without the new adapters");
  }
}

void check_critic(const TrainingFlags& flags) {
  TORCH_CHECK(!flags.critic_use_peft || trains_lora(flags),
              "--critic_use_peft takes the settings of the policy's LoRA, which is off: give "
              "--use_peft too");
  TORCH_CHECK(!flags.critic_use_peft || flags.adapter.empty(),
              "--critic_use_peft takes the settings of new adapters, not those of --adapter");
  if (flags.ptx_data.empty()) {
    refuse(flags, {"ptx_coef", "ptx_max_length", "cache_dir"}, "without --ptx_data");
  }
}

}  // namespace

void check_online_effects(const TrainingFlags& flags) {
  check_sources(flags);
  check_groups(flags);
  check_shaping(flags);
  if (flags.objective == Objective::Grpo) {
    check_advantages(flags);
  } else {
    check_critic(flags);
    check_role_checkpointing(flags);
  }
  check_loss(flags);
  check_reference(flags);
  if (flags.samples_steps == 0) {
    refuse(flags, {"samples_shown"}, "with --samples_steps 0");
  }
  if (flags.device == "cpu") {
    refuse(flags,
           {"offload_reference", "offload_reward"},
           "with --device cpu: everything is already in CPU memory");
  }
  const auto rendezvous = rendezvous_from_environment();
  validate(online_options(flags), rendezvous ? rendezvous->size : 1);
}

}  // namespace reprise::app
