// Online training: the policy generates completions of prompts, rewards score them, and the policy
// learns from the scores. PPO with a critic, GRPO and its variants, RLOO, REINFORCE++.
//
// The run alternates between two phases. The first makes a generation batch: rollout (KV cache, no
// gradients), rewards, log-probabilities of the old policy and the reference, values of the critic,
// advantages. The second takes optimizer steps on that batch; only its passes are checkpointed.
//
// Equal options, data and seed give equal weights to the last bit, resumed or not, under every
// memory policy, if kernels and rewards are deterministic.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/data/prompts.h>
#include <reprise/export.h>
#include <reprise/loss/advantage.h>
#include <reprise/loss/policy_gradient.h>
#include <reprise/loss/returns.h>
#include <reprise/loss/value.h>
#include <reprise/reward/reward_list.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/reference.h>
#include <reprise/train/rollout.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace reprise {

/// How advantages are computed from rewards. A group is the completions of one prompt.
enum class OnlineEstimator : uint8_t {
  Gae,                ///< gae: generalised advantage estimation with a critic (PPO)
  Grpo,               ///< grpo, group_norm: relative to the group's mean and deviation
  Rloo,               ///< rloo: relative to the mean of the group's other completions
  Reinforce,          ///< reinforce: discounted returns, whitened (REINFORCE++)
  ReinforceBaseline,  ///< reinforce_baseline: the same after subtracting the group's mean
};

/// Throws for an unknown name, with a list of the known ones.
REPRISE_API OnlineEstimator parse_online_estimator(std::string_view name);
/// Whether the estimator compares the completions of a group, and so needs at least two of them.
REPRISE_API bool compares_groups(OnlineEstimator estimator);

/// Settings of an online run. "Gae:" and the like name the estimators that a member is for.
struct OnlineOptions {
  /// As for train(), with these differences: batch_size and eval_batch_size count completions,
  /// best_metric is usually "eval_reward", collate only provides the pad id, and autocast is for
  /// updates and scoring passes (rollout uses the type of the weights).
  TrainerOptions training = {};
  RolloutOptions rollout = {};  ///< generate.samples_per_prompt is the group size
  /// Micro-batches per process in a generation batch (TRL's steps_per_generation), a multiple of
  /// training.accumulation; 0: training.accumulation.
  int64_t micro_batches_per_generation = 0;
  int64_t iterations = 1;  ///< passes over each generation batch (TRL's num_iterations)

  OnlineEstimator estimator = OnlineEstimator::Grpo;
  /// Grpo, Rloo, ReinforceBaseline. Its estimator and group_size are filled in.
  AdvantageOptions group = {};
  PolicyOptions policy = {};           ///< the loss of the policy
  ValueOptions value = {};             ///< Gae: the loss of the critic
  double critic_learning_rate = 9e-6;  ///< Gae
  int64_t critic_warmup_steps = 0;  ///< Gae: first optimizer steps, in which only the critic learns
  double gamma = 1.0;               ///< Gae, Reinforce, ReinforceBaseline: discount per token
  double lambda = 0.95;             ///< Gae
  Whitening whitening = Whitening::OpenRlhf;  ///< of token advantages

  /// Coefficient of the KL to the reference that is subtracted from the reward of each token (Rloo:
  /// of each completion). Grpo has its KL in the loss: PolicyOptions::beta.
  double kl_reward_coef = 0;
  KlEstimator kl_reward = KlEstimator::K1;
  std::optional<double> kl_target = {};  ///< adapt kl_reward_coef to reach this KL
  double kl_horizon = 10000;             ///< completions over which it adapts

  std::optional<std::pair<double, double>> score_clip = {};  ///< lowest and highest score
  ScorePlace score_place = ScorePlace::LastToken;            ///< the tokens that get the score
  double missing_eos_penalty = 0;  ///< subtracted from the score of a completion without an end
  /// DAPO's soft penalty for long completions: it grows from 0 to overlong_factor within so many
  /// tokens below the length limit; 0: none.
  int64_t overlong_buffer = 0;
  double overlong_factor = 1.0;
  bool mask_truncated = false;  ///< do not learn from completions that reached the length limit

  /// DAPO's dynamic sampling: replace groups without a learning signal (all rewards equal) by those
  /// of further prompts.
  bool filter_groups = false;
  /// With filter_groups: the group's mean reward must also be strictly between these.
  std::optional<std::pair<double, double>> filter_means_between = {};
  int64_t filter_attempts = 10;  ///< rollouts for one generation batch at most

  /// Coefficient of a language-model loss on OnlineJob::pretraining (PPO-ptx); 0: none.
  double pretraining_coef = 0;

  bool offload_reference = false;  ///< keep the reference on the CPU between its passes
  int64_t samples_steps = 10;  ///< write completions to samples.jsonl every so many steps; 0: never
  int64_t samples_shown = 4;   ///< completions written each time
};

/// Throws if options are out of range, contradict each other or have no effect. train_online()
/// calls it. A generation batch has the completions of all `processes`.
REPRISE_API void validate(const OnlineOptions& options, int64_t processes = 1);
/// Whether OnlineJob::reference is required: the KL is in the loss or in the reward.
REPRISE_API bool needs_reference(const OnlineOptions& options);

/// Models, data and rewards of an online run. Shared objects may be used again afterwards.
struct OnlineJob {
  std::shared_ptr<Model> policy;            ///< trained in place; a language-model head
  std::shared_ptr<Model> critic = nullptr;  ///< trained in place; a Value head. Gae only
  std::optional<Reference> reference = {};  ///< required if needs_reference(options); else refused
  std::shared_ptr<RewardList> rewards;
  std::shared_ptr<const PromptSet> prompts;
  std::shared_ptr<const PromptSet> eval_prompts = nullptr;  ///< null: no evaluation
  /// Rows of Objective::Sft for pretraining_coef; null without it.
  std::shared_ptr<const Dataset> pretraining = nullptr;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< the policy's; decodes completions for rewards
  /// Writes the policy or its adapter into a folder, and the critic into folder/critic. Called for
  /// every checkpoint, in all processes.
  std::function<void(const std::filesystem::path& folder)> save_models;
  std::filesystem::path resume_from = {};  ///< as in TrainingJob
};

/// Trains the policy, and the critic, in place. Errors, checkpoints and processes are as for
/// train().
///
/// metrics.jsonl has, in addition to what train() writes: reward, reward_std, rewards/<name>/mean
/// and /std, frac_reward_zero_std, completions/mean_length, /min_length, /max_length and
/// /clipped_ratio, kl, clip_ratio/..., entropy, rollout_ms, scoring_ms, update_ms,
/// rollout_tokens_per_second, rollout_peak_bytes, scoring_peak_bytes, update_peak_bytes, and with a
/// critic critic/loss, critic/grad_norm and critic/explained_variance. samples.jsonl has
/// completions with step, prompt, rewards and advantage.
REPRISE_API TrainingSummary train_online(const OnlineJob& job,
                                         const OnlineOptions& options,
                                         TrainingObserver& observer,
                                         const World& world = World::single());

}  // namespace reprise
