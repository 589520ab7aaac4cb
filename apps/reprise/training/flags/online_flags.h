// The additional flags of grpo and ppo. A part of TrainingFlags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

struct OnlineFlags {
  // Prompts and sampling
  int64_t max_prompt_length = 0;      ///< 0: what completions leave of the model's positions
  std::string long_prompts = "drop";  ///< or keep_end
  int64_t max_completion_length = 512;
  int64_t num_generations = 8;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0, repetition_penalty = 1;
  std::vector<std::string> stop_strings;
  int64_t rollout_batch_size = 32;
  int64_t steps_per_generation = 0;  ///< 0: gradient_accumulation_steps
  int64_t num_iterations = 1;
  int64_t samples_steps = 10, samples_shown = 4;

  // Rewards
  std::vector<std::string> reward_model, reward_function;
  std::string reward_command, reward_url;
  std::string reward_auth_file;                ///< has the token for reward_url
  std::string reward_url_format = "requests";  ///< or openrlhf
  double reward_timeout = 60;                  ///< seconds
  std::vector<double> reward_weights;  ///< of models, functions, command, URL; empty: 1 for each
  int64_t reward_batch_size = 8;
  std::string reward_text = "as_requested";  ///< text, chat
  std::string reward_pooling = "last_attended";
  bool normalize_reward = false;
  std::vector<double> reward_clip_range;  ///< two numbers, or none
  double missing_eos_penalty = 0;
  int64_t overlong_buffer = 0;
  double overlong_factor = 1;
  bool dynamic_filtering = false;
  std::vector<double> filter_range;  ///< two numbers, or none
  int64_t filter_attempts = 10;

  // Advantages
  std::string advantage_estimator = "grpo";
  std::string scale_rewards = "group";
  std::string multi_objective_aggregation = "sum_then_normalize";
  bool normalize_advantages = false;
  double gamma = 1, lambda = 0.95;
  std::string whitening = "openrlhf";  ///< trl, mean_only
  std::string score_place = "last_token";

  // Loss of the policy
  std::string importance_sampling_level = "token";
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta, dual_clip;
  double sapo_temperature_pos = 1.0, sapo_temperature_neg = 1.05;
  double vespo_k_pos = 2.0, vespo_lambda_pos = 3.0, vespo_k_neg = 3.0, vespo_lambda_neg = 2.0;
  bool mask_truncated_completions = false;
  double entropy_coef = 0, top_entropy_quantile = 1;
  std::optional<double> off_policy_mask_threshold;
  std::string importance_sampling_correction = "none";
  std::optional<double> importance_sampling_clip_min, importance_sampling_clip_max;

  // KL from the reference
  std::string kl_estimator;  ///< k1, k2, k3; empty: k3 in the loss, k1 in the reward
  bool use_bias_correction_kl = true;
  double kl_coef = 0;  ///< in the reward
  std::optional<double> kl_target;
  double kl_horizon = 10000;

  // Critic
  std::string critic_model;
  bool critic_use_peft = false;
  double critic_learning_rate = 9e-6;
  int64_t critic_warmup_steps = 0;
  double value_clip = 0.5;  ///< 0: no clipping
  double vf_coef = 1;

  // Pretraining data
  std::string ptx_data;
  double ptx_coef = 0.05;
  int64_t ptx_max_length = 1024;

  // Memory
  bool offload_reference = false, offload_reward = false;
  // Gradient checkpointing of one role: role_checkpointing.h
  std::optional<bool> actor_checkpointing, critic_checkpointing;
  std::optional<bool> actor_use_reentrant, critic_use_reentrant;
  std::string actor_checkpointing_kwargs, critic_checkpointing_kwargs;
  std::optional<double> actor_checkpointing_ratio, critic_checkpointing_ratio;
  std::string actor_checkpointing_layers, critic_checkpointing_layers;
  std::string actor_checkpointing_policy, critic_checkpointing_policy;
};

}  // namespace reprise::app
