#include "reprise/training/options/online_options.h"

#include "reprise/training/effects/flag_effects.h"

#include <c10/util/Exception.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::app {

namespace {

std::string loss_of(const std::string& estimator) {
  return estimator == "rloo" ? "rloo" : estimator.starts_with("reinforce") ? "ppo" : "dapo";
}

std::optional<std::pair<double, double>> range_of(const std::vector<double>& numbers) {
  return numbers.empty() ? std::nullopt : std::optional(std::pair(numbers[0], numbers[1]));
}

Whitening whitening_named(std::string_view name) {
  return name == "trl"         ? Whitening::Trl
         : name == "mean_only" ? Whitening::MeanOnly
                               : Whitening::OpenRlhf;
}

// OpenRLHF's corrections have OpenRLHF's default range, the others TRL's.
void set_mismatch_range(const TrainingFlags& flags, PolicyOptions& options) {
  if (options.mismatch == MismatchCorrection::None) {
    options.mismatch_least = flags.importance_sampling_clip_min;
    options.mismatch_greatest = flags.importance_sampling_clip_max;
    return;
  }
  const std::string& name = flags.importance_sampling_correction;
  const bool is_openrlhf = name == "tis" || name == "icepop" || name == "seq-mask-tis";
  options.mismatch_least = flags.importance_sampling_clip_min;
  if (is_openrlhf && !options.mismatch_least) {
    options.mismatch_least = 0.5;
  }
  options.mismatch_greatest = flags.importance_sampling_clip_max.value_or(is_openrlhf ? 5.0 : 3.0);
}

PolicyOptions policy_options(const TrainingFlags& flags) {
  PolicyOptions options;
  options.loss = parse_policy_loss(flags.loss_type.front());
  options.level = parse_ratio_level(flags.importance_sampling_level);
  options.epsilon = flags.epsilon;
  options.epsilon_high = flags.epsilon_high;
  options.delta = flags.delta;
  options.dual_clip = flags.dual_clip;
  options.beta = flags.beta;
  if (flags.beta > 0) {
    options.kl_bias_correction = flags.use_bias_correction_kl;
    if (!flags.kl_estimator.empty()) {
      options.kl = parse_kl_estimator(flags.kl_estimator);
    }
  }
  options.sapo_temperature_positive = flags.sapo_temperature_pos;
  options.sapo_temperature_negative = flags.sapo_temperature_neg;
  options.vespo_k_positive = flags.vespo_k_pos;
  options.vespo_lambda_positive = flags.vespo_lambda_pos;
  options.vespo_k_negative = flags.vespo_k_neg;
  options.vespo_lambda_negative = flags.vespo_lambda_neg;
  options.entropy_coef = flags.entropy_coef;
  options.top_entropy_quantile = flags.top_entropy_quantile;
  options.off_policy_threshold = flags.off_policy_mask_threshold;
  options.mismatch = parse_mismatch_correction(flags.importance_sampling_correction);
  set_mismatch_range(flags, options);
  return options;
}

void set_rollout(const TrainingFlags& flags, RolloutOptions& options) {
  auto& generate = options.generate;
  generate.sampling.temperature = flags.temperature;
  generate.sampling.top_k = flags.top_k;
  generate.sampling.top_p = flags.top_p;
  generate.sampling.min_p = flags.min_p;
  generate.sampling.repetition_penalty = flags.repetition_penalty;
  generate.sampling.seed = flags.seed;
  generate.max_new_tokens = flags.max_completion_length;
  generate.samples_per_prompt = flags.num_generations;
  generate.stop_strings = flags.stop_strings;
  options.batch_size = flags.rollout_batch_size;
}

void set_advantages(const TrainingFlags& flags, OnlineOptions& options) {
  options.estimator = parse_online_estimator(flags.advantage_estimator);
  options.group.scale = parse_reward_scale(flags.scale_rewards);
  options.group.aggregation = parse_reward_aggregation(flags.multi_objective_aggregation);
  options.group.normalize_advantages = flags.normalize_advantages;
  const bool clips_in_group =
      options.estimator == OnlineEstimator::Grpo || options.estimator == OnlineEstimator::Rloo;
  (clips_in_group ? options.group.reward_clip : options.score_clip) =
      range_of(flags.reward_clip_range);
  options.gamma = flags.gamma;
  options.lambda = flags.lambda;
  options.whitening = whitening_named(flags.whitening);
  options.score_place = parse_score_place(flags.score_place);
}

void set_rewards(const TrainingFlags& flags, OnlineOptions& options) {
  options.kl_reward_coef = flags.kl_coef;
  if (!flags.kl_estimator.empty()) {
    options.kl_reward = parse_kl_estimator(flags.kl_estimator);
  }
  options.kl_target = flags.kl_target;
  options.kl_horizon = flags.kl_horizon;
  options.missing_eos_penalty = flags.missing_eos_penalty;
  options.overlong_buffer = flags.overlong_buffer;
  options.overlong_factor = flags.overlong_factor;
  options.mask_truncated = flags.mask_truncated_completions;
  options.filter_groups = flags.dynamic_filtering;
  options.filter_means_between = range_of(flags.filter_range);
  options.filter_attempts = flags.filter_attempts;
}

void set_critic(const TrainingFlags& flags, OnlineOptions& options) {
  options.value.clip = flags.value_clip > 0 ? std::optional(flags.value_clip) : std::nullopt;
  options.value.coefficient = flags.vf_coef;
  options.critic_learning_rate = flags.critic_learning_rate;
  options.critic_warmup_steps = flags.critic_warmup_steps;
  options.pretraining_coef = flags.ptx_data.empty() ? 0 : flags.ptx_coef;
}

}  // namespace

void complete_online(TrainingFlags& flags, const std::set<std::string>& said) {
  std::string& loss = flags.loss_type.front();
  if (flags.objective == Objective::Grpo && !said.contains("loss_type")) {
    loss = loss_of(flags.advantage_estimator);
  }
  if (loss == "gspo") {
    TORCH_CHECK(!said.contains("importance_sampling_level") ||
                    flags.importance_sampling_level == "sequence",
                "--loss_type gspo has ratios of sequences: leave out --importance_sampling_level ",
                flags.importance_sampling_level);
    loss = "grpo";
    flags.importance_sampling_level = "sequence";
  }
  if (flags.scale_rewards == "true" || flags.scale_rewards == "false") {
    flags.scale_rewards = flags.scale_rewards == "true" ? "group" : "none";
  }
  if (flags.beta > 0 && !said.contains("kl_coef")) {
    flags.kl_coef = 0;
  }
}

OnlineOptions online_options(const TrainingFlags& flags) {
  OnlineOptions options;
  set_rollout(flags, options.rollout);
  options.micro_batches_per_generation = flags.steps_per_generation;
  options.iterations = flags.num_iterations;
  options.policy = policy_options(flags);
  set_advantages(flags, options);
  set_rewards(flags, options);
  set_critic(flags, options);
  // validate() needs these.
  options.training.batch_size = flags.per_device_train_batch_size;
  options.training.accumulation = flags.gradient_accumulation_steps;
  options.offload_reference = flags.offload_reference;
  options.samples_steps = flags.samples_steps;
  options.samples_shown = flags.samples_shown;
  return options;
}

}  // namespace reprise::app
