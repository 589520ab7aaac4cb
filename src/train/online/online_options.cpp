// Checks the options of online training.
#include "train/online/online_options.h"

#include "loss/enum_names.h"

#include <c10/util/Exception.h>

#include <array>
#include <cmath>
#include <string>

namespace reprise {

namespace {

constexpr std::array kEstimators = {
    EnumName<OnlineEstimator>{"gae", OnlineEstimator::Gae},
    EnumName<OnlineEstimator>{"grpo", OnlineEstimator::Grpo},
    EnumName<OnlineEstimator>{"group_norm", OnlineEstimator::Grpo},
    EnumName<OnlineEstimator>{"rloo", OnlineEstimator::Rloo},
    EnumName<OnlineEstimator>{"reinforce", OnlineEstimator::Reinforce},
    EnumName<OnlineEstimator>{"reinforce_baseline", OnlineEstimator::ReinforceBaseline}};

void check_sizes(const OnlineOptions& options, int64_t processes) {
  const auto& training = options.training;
  const auto& generate = options.rollout.generate;
  const int64_t samples = generate.samples_per_prompt;
  TORCH_CHECK(training.batch_size >= 1 && training.accumulation >= 1 &&
                  options.micro_batches_per_generation >= 0,
              "[online] per_device_train_batch_size and gradient_accumulation_steps: expected 1 or "
              "more; steps_per_generation: 0 or more");
  TORCH_CHECK(training.max_steps > 0 || training.epochs > 0,
              "[online] num_train_epochs: expected more than 0");
  TORCH_CHECK(generate.max_new_tokens >= 1,
              "[online] max_completion_length: expected 1 or more, found ",
              generate.max_new_tokens);
  TORCH_CHECK(generate.sampling.temperature > 0 || !compares_groups(options.estimator),
              "[online] temperature 0: all samples of a prompt would be equal, so none would be "
              "better than the others and nothing is learned.");
  TORCH_CHECK(options.critic_warmup_steps == 0 || options.estimator == OnlineEstimator::Gae,
              "[online] critic_warmup_steps has no effect without a critic.");
  TORCH_CHECK(samples >= 1, "[online] num_generations: expected 1 or more, found ", samples);
  TORCH_CHECK(
      samples > 1 || !compares_groups(options.estimator),
      "[online] this estimator compares the completions of a prompt: with one sample per prompt "
      "all advantages are 0 and nothing is learned. Set num_generations to 2 or more, or use gae "
      "or reinforce.");
  TORCH_CHECK(options.iterations >= 1, "[online] num_iterations: expected 1 or more");
  const int64_t micro_batches = generation_micro_batches(options);
  TORCH_CHECK(micro_batches % training.accumulation == 0,
              "[online] steps_per_generation (",
              micro_batches,
              " micro-batches) must be a multiple of gradient_accumulation_steps (",
              training.accumulation,
              "), so that a generation batch has a whole number of optimizer steps.");
  const int64_t completions = training.batch_size * micro_batches * processes;
  TORCH_CHECK(completions % samples == 0,
              "[online] a generation batch has ",
              completions,
              " completions (per_device_train_batch_size ",
              training.batch_size,
              " x steps_per_generation ",
              micro_batches,
              processes > 1 ? c10::str(" x ", processes, " processes") : std::string(),
              "), which is not a multiple of num_generations (",
              samples,
              "): groups would be split.");
}

void check_rewards(const OnlineOptions& options) {
  TORCH_CHECK(std::isfinite(options.kl_reward_coef) && options.kl_reward_coef >= 0,
              "[online] kl_coef: expected 0 or more, found ",
              options.kl_reward_coef);
  TORCH_CHECK(options.kl_reward_coef == 0 || options.estimator != OnlineEstimator::Grpo,
              "[online] GRPO has its KL in the loss (beta), not in the reward (kl_coef).");
  TORCH_CHECK(options.kl_reward_coef == 0 || options.policy.beta == 0,
              "[online] the KL would count twice: set beta (in the loss) or kl_coef (in the "
              "reward), not both.");
  TORCH_CHECK(!options.kl_target || options.kl_reward_coef > 0,
              "[online] kl_target adapts kl_coef, which is 0.");
  if (options.kl_target) {
    AdaptiveKl{options.kl_reward_coef, *options.kl_target, options.kl_horizon}.validate();
  }
  TORCH_CHECK(options.missing_eos_penalty >= 0,
              "[online] missing_eos_penalty: expected 0 or more, since it is subtracted.");
  const bool is_lowered = options.missing_eos_penalty > 0 || options.overlong_buffer > 0;
  TORCH_CHECK(
      !is_lowered || options.group.aggregation == RewardAggregation::SumThenNormalize ||
          !compares_groups(options.estimator),
      "[online] normalize_then_sum normalises each reward separately, so a penalty on their sum "
      "(missing_eos_penalty, overlong_buffer) cannot be applied.");
  if (options.overlong_buffer > 0) {
    validate(OverlongPenalty{
        options.rollout.generate.max_new_tokens, options.overlong_buffer, options.overlong_factor});
  }
  validate(TokenRewardOptions{options.kl_reward_coef, options.score_place, options.score_clip});
  TORCH_CHECK(
      !options.score_clip || !compares_groups(options.estimator) ||
          options.estimator == OnlineEstimator::ReinforceBaseline,
      "[online] this estimator clips scores by the group's reward_clip, not by score_clip.");
  TORCH_CHECK(!options.filter_means_between || options.filter_groups,
              "[online] a range for group means has no effect unless groups are filtered.");
  TORCH_CHECK(options.filter_attempts >= 1, "[online] filter_attempts: expected 1 or more");
  TORCH_CHECK(!options.filter_groups || options.rollout.generate.samples_per_prompt > 1,
              "[online] filter_groups needs more than one sample per prompt.");
}

}  // namespace

OnlineEstimator parse_online_estimator(std::string_view name) {
  return parse_enum<OnlineEstimator>("advantage_estimator", name, kEstimators);
}

bool compares_groups(OnlineEstimator estimator) {
  return estimator == OnlineEstimator::Grpo || estimator == OnlineEstimator::Rloo ||
         estimator == OnlineEstimator::ReinforceBaseline;
}

void validate(const OnlineOptions& options, int64_t processes) {
  check_sizes(options, processes);
  check_rewards(options);
  validate(options.policy);
  if (options.estimator == OnlineEstimator::Gae) {
    validate(options.value);
  }
  TORCH_CHECK(options.gamma > 0 && options.gamma <= 1 && options.lambda >= 0 && options.lambda <= 1,
              "[online] gamma: expected above 0 and at most 1; lambda: from 0 to 1");
  TORCH_CHECK(options.pretraining_coef >= 0, "[online] ptx_coef: expected 0 or more");
  if (compares_groups(options.estimator)) {
    validate(group_options(options));
  }
}

int64_t generation_micro_batches(const OnlineOptions& options) {
  return options.micro_batches_per_generation > 0 ? options.micro_batches_per_generation
                                                  : options.training.accumulation;
}

double logprob_temperature(const OnlineOptions& options) {
  const double temperature = options.rollout.generate.sampling.temperature;
  return temperature > 0 ? temperature : 1;
}

AdvantageOptions group_options(const OnlineOptions& options) {
  auto group = options.group;
  group.group_size = options.rollout.generate.samples_per_prompt;
  group.estimator = options.estimator == OnlineEstimator::Rloo ? GroupEstimator::Rloo
                    : options.estimator == OnlineEstimator::ReinforceBaseline
                        ? GroupEstimator::ReinforceBaseline
                        : GroupEstimator::Grpo;
  return group;
}

bool needs_reference(const OnlineOptions& options) {
  return needs_reference(options.policy) || options.kl_reward_coef > 0;
}

}  // namespace reprise
