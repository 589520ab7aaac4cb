// Online training: a policy answers prompts, rewards judge its answers, and it learns from them.
// PPO with a critic, GRPO and its family, RLOO, REINFORCE++.
//
// One generation batch after the other: rollout (KV cache, no graph, no checkpointed region),
// rewards, frozen passes (old policy, reference, critic), advantages; then optimizer steps on it,
// which are the only passes that are checkpointed. Same options, data and seed give the same
// weights to the last bit, resumed or not, under every memory policy, where kernels and rewards are
// deterministic.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/data/prompts.h>
#include <reprise/export.h>
#include <reprise/loss/advantage.h>
#include <reprise/loss/policy.h>
#include <reprise/loss/returns.h>
#include <reprise/loss/value.h>
#include <reprise/reward/reward_list.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/reference.h>
#include <reprise/train/rollout.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {

/// Where advantages come from.
enum class OnlineEstimator : uint8_t {
  Gae,                ///< gae: a critic's values, PPO
  Grpo,               ///< grpo, group_norm: the group's mean and deviation
  Rloo,               ///< rloo: the mean of the group's others
  Reinforce,          ///< reinforce: discounted returns, whitened: REINFORCE++
  ReinforceBaseline,  ///< reinforce_baseline: the same minus the group's mean
};

/// Throws listing the names there are.
REPRISE_API OnlineEstimator parse_online_estimator(std::string_view name);
/// Whether several completions of a prompt are compared with each other.
REPRISE_API bool compares_groups(OnlineEstimator estimator);

struct OnlineOptions {
  /// batch_size counts completions. Evaluation and best_metric are of "eval_reward". Its collate
  /// gives the pad id. Its autocast is for updates and frozen passes; rollout samples in the type
  /// of the weights.
  TrainerOptions training = {};
  RolloutOptions rollout = {};               ///< its samples_per_prompt is the group size
  int64_t micro_batches_per_generation = 0;  ///< TRL's steps_per_generation; 0: accumulation
  int64_t iterations = 1;                    ///< how often a generation batch is learned from

  OnlineEstimator estimator = OnlineEstimator::Grpo;
  AdvantageOptions group = {};  ///< Grpo, Rloo, ReinforceBaseline; its estimator and size are set
  PolicyOptions policy = {};
  ValueOptions value = {};                    ///< Gae
  double critic_learning_rate = 9e-6;         ///< Gae
  int64_t critic_warmup_steps = 0;            ///< Gae: steps in which only the critic learns
  double gamma = 1.0;                         ///< Gae, Reinforce, ReinforceBaseline
  double lambda = 0.95;                       ///< Gae
  Whitening whitening = Whitening::OpenRlhf;  ///< of token advantages

  /// KL from the reference as a part of the reward; of RLOO, of a sequence.
  double kl_reward_coef = 0;
  KlEstimator kl_reward = KlEstimator::K1;
  std::optional<double> kl_target = {};  ///< the coefficient adapts to it
  double kl_horizon = 10000;

  std::optional<std::pair<double, double>> score_clip = {};
  ScorePlace score_place = ScorePlace::LastToken;
  double missing_eos_penalty = 0;
  int64_t overlong_buffer = 0;  ///< tokens before the limit in which the penalty grows; 0: none
  double overlong_factor = 1.0;
  bool mask_truncated = false;  ///< completions without an end are not learned from

  /// Groups that have nothing to tell (all rewards equal) are replaced by those of further prompts.
  bool filter_groups = false;
  std::optional<std::pair<double, double>> filter_means_between = {};
  int64_t filter_attempts = 10;  ///< rollouts for one generation batch at most

  double pretraining_coef = 0;  ///< of a language-model loss on OnlineJob::pretraining (PPO-ptx)

  bool offload_reference = false;  ///< its weights are on the CPU between its passes
  bool offload_optimizer = false;  ///< the optimizers' state is, outside of updates
  int64_t samples_steps = 10;      ///< a table of samples every so many steps; 0: none
  int64_t samples_shown = 4;       ///< completions in it
};

/// Throws for options that are out of range, contradict each other or have no effect.
/// A generation batch is of all processes.
REPRISE_API void validate(const OnlineOptions& options, int64_t processes = 1);
/// Whether the policy's divergence from a reference counts.
REPRISE_API bool needs_reference(const OnlineOptions& options);

struct OnlineJob {
  std::shared_ptr<Model> policy;
  std::shared_ptr<Model> critic = nullptr;  ///< a Value head; null unless the estimator is Gae
  std::optional<Reference> reference = {};  ///< given if needs_reference(options), and only then
  std::shared_ptr<RewardList> rewards;
  std::shared_ptr<const PromptSet> prompts;
  std::shared_ptr<const PromptSet> eval_prompts = nullptr;  ///< null: no evaluation
  std::shared_ptr<const Dataset> pretraining = nullptr;
  std::shared_ptr<const Tokenizer> tokenizer;
  /// Writes the policy (or its adapter), and the critic into folder/critic.
  std::function<void(const std::filesystem::path& folder)> save_models;
  std::filesystem::path resume_from = {};  ///< as in TrainingJob
};

/// Runs it. metrics.jsonl has, beside what train() writes, reward, reward_std, rewards/<name>/mean
/// and /std, frac_reward_zero_std, completions/mean_length, /min_length, /max_length and
/// /clipped_ratio, kl, clip_ratio/..., entropy, rollout_ms, scoring_ms, update_ms,
/// rollout_tokens_per_second, rollout_peak_bytes, scoring_peak_bytes, update_peak_bytes, and with a
/// critic critic/loss, critic/grad_norm, critic/explained_variance. samples.jsonl has what was
/// sampled: step, prompt, completion, rewards, advantage.
REPRISE_API TrainingSummary train_online(const OnlineJob& job,
                                         const OnlineOptions& options,
                                         TrainingObserver& observer,
                                         const World& world = World::single());

}  // namespace reprise
