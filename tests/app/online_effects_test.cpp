// Flags of grpo and ppo that would be ignored, or would train on nothing, are refused by name.
#include "app/training_flags.h"

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

using enum Objective;

class OnlineEffects : public ::testing::TestWithParam<Refusal> {};

TEST_P(OnlineEffects, WithoutEffectIsRefusedWithTheReason) {
  expect_refused(GetParam());
}

const Refusal kOnlineRefusals[] = {
    // Groups
    {Grpo, {"--num_generations", "1"}, "with one it would train on nothing"},
    {Grpo,
     {"--advantage_estimator", "rloo", "--num_generations", "1"},
     "--num_generations 1: rloo compares"},
    {Grpo,
     {"--per_device_train_batch_size", "6", "--gradient_accumulation_steps", "2"},
     "are 12 completions per generation, which is not a multiple of --num_generations 8"},
    {Grpo,
     {"--gradient_accumulation_steps", "2", "--steps_per_generation", "3"},
     "--steps_per_generation 3 is not a multiple of --gradient_accumulation_steps 2"},
    {Ppo, {"--dynamic_filtering"}, "--dynamic_filtering needs --num_generations of 2 or more"},
    // Rewards
    {Grpo, {"--reward_weights", "1", "2"}, "--reward_weights has 2 weights for 1 rewards"},
    {Grpo, {"--normalize_reward"}, "--normalize_reward has no effect without --reward_model"},
    {Grpo, {"--reward_batch_size", "4"}, "without --reward_model"},
    {Grpo, {"--offload_reward"}, "without --reward_model"},
    {Grpo, {"--reward_timeout", "5"}, "without --reward_command or --reward_url"},
    {Grpo, {"--reward_command", "c", "--reward_url_format", "openrlhf"}, "without --reward_url"},
    {Grpo, {"--reward_clip_range", "1"}, "--reward_clip_range: expected two numbers"},
    {Grpo, {"--reward_clip_range", "5", "-5"}, "--reward_clip_range: expected two numbers"},
    {Grpo, {"--overlong_factor", "2"}, "without --overlong_buffer"},
    {Grpo, {"--overlong_buffer", "1000"}, "more than --max_completion_length 512"},
    {Grpo, {"--filter_range", "0", "1"}, "without --dynamic_filtering"},
    {Grpo, {"--filter_attempts", "3"}, "without --dynamic_filtering"},
    // Advantages
    {Grpo,
     {"--advantage_estimator", "rloo", "--scale_rewards", "none"},
     "--scale_rewards has no effect with --advantage_estimator rloo"},
    {Grpo, {"--normalize_advantages"}, "it is for rloo"},
    {Grpo, {"--gamma", "0.9"}, "whose advantages are of completions"},
    {Grpo, {"--whitening", "trl"}, "whose advantages are of completions"},
    {Grpo, {"--kl_coef", "0.1"}, "whose KL is in the loss: give --beta"},
    // The loss
    {Grpo, {"--sapo_temperature_pos", "1"}, "has no effect with --loss_type dapo"},
    {Grpo, {"--loss_type", "sapo", "--vespo_k_neg", "3"}, "has no effect with --loss_type sapo"},
    {Grpo, {"--loss_type", "sapo", "--epsilon", "0.2"}, "bounds the ratio by itself"},
    {Grpo, {"--epsilon", "0.2"}, "when a generation is learned from once: the ratio is 1"},
    {Grpo, {"--delta", "4"}, "when a generation is learned from once"},
    {Ppo, {"--dual_clip", "3"}, "when a generation is learned from once"},
    {Grpo, {"--num_iterations", "2", "--dual_clip", "3"}, "dual_clip has no effect on dapo"},
    {Grpo,
     {"--advantage_estimator", "rloo", "--beta", "0.1"},
     "whose KL is in the reward: give --kl_coef"},
    {Grpo, {"--importance_sampling_clip_max", "3"}, "without --importance_sampling_correction"},
    // The reference
    {Grpo, {"--use_bias_correction_kl"}, "without --beta"},
    {Grpo, {"--kl_estimator", "k3"}, "there is no reference"},
    {Grpo, {"--ref_model", "r"}, "there is no reference"},
    {Grpo, {"--offload_reference"}, "there is no reference"},
    {Grpo, {"--beta", "0.1", "--use_peft", "--ref_model", "r"}, "with LoRA: the reference is"},
    {Ppo, {"--kl_coef", "0", "--kl_target", "6"}, "without --kl_coef, which it adapts"},
    {Ppo, {"--kl_horizon", "100"}, "without --kl_target"},
    {Ppo, {"--beta", "0.1", "--kl_coef", "0.1"}, "the KL would count twice"},
    // The critic
    {Ppo, {"--critic_use_peft"}, "takes the settings of the policy's LoRA, which is off"},
    {Ppo, {"--ptx_coef", "0.1"}, "without --ptx_data"},
    {Ppo, {"--cache_dir", "c"}, "without --ptx_data"},
    {Grpo, {"--critic.gradient_checkpointing"}, "means nothing for grpo: it is a flag of ppo"},
    {Grpo, {"--critic_learning_rate", "1e-5"}, "means nothing for grpo: it is a flag of ppo"},
    {Ppo, {"--advantage_estimator", "rloo"}, "means nothing for ppo: it is a flag of grpo"},
    // Memory
    {Ppo, {"--device", "cpu", "--offload_optimizer"}, "--optimizer_offload has no effect with"},
    {Ppo, {"--device", "cpu", "--offload_reference"}, "--offload_reference has no effect with"},
    {Ppo,
     {"--device", "cpu", "--reward_model", "r", "--offload_reward"},
     "--offload_reward has no effect with --device cpu"},
    {Ppo,
     {"--critic.gradient_checkpointing_ratio", "0.5"},
     "the critic: --gradient_checkpointing_ratio has no effect without --gradient_checkpointing"},
    {Ppo,
     {"--gradient_checkpointing_policy", "attention"},
     "--gradient_checkpointing_policy has no effect without --gradient_checkpointing"},
    {Ppo,
     {"--gradient_checkpointing",
      "--gradient_checkpointing_policy",
      "full",
      "--actor.gradient_checkpointing_policy",
      "attention",
      "--critic.gradient_checkpointing_policy",
      "matmuls"},
     "where --actor. and --critic. each have their own"},
    // The rest
    {Grpo, {"--samples_steps", "0", "--samples_shown", "2"}, "with --samples_steps 0"},
    {Grpo, {"--temperature", "0"}, "--temperature: expected a number above 0"},
    {Grpo, {"--max_length", "10"}, "means nothing for grpo"},
    {Grpo, {"--neftune_noise_alpha", "5"}, "means nothing for grpo"},
};

INSTANTIATE_TEST_SUITE_P(Flags, OnlineEffects, ::testing::ValuesIn(kOnlineRefusals));

TEST(OnlineFlagsInCombination, TheSameFlagsAreTakenWhereTheyCount) {
  const std::pair<Objective, Words> accepted[] = {
      {Grpo, {"--advantage_estimator", "reinforce", "--num_generations", "1", "--gamma", "0.9"}},
      {Grpo, {"--num_iterations", "2", "--epsilon", "0.2", "--epsilon_high", "0.28"}},
      {Grpo, {"--steps_per_generation", "4", "--delta", "4"}},
      {Grpo, {"--loss_type", "cispo", "--epsilon_high", "5"}},
      {Grpo, {"--advantage_estimator", "rloo", "--kl_coef", "0.05", "--normalize_advantages"}},
      {Grpo, {"--beta", "0.1", "--kl_estimator", "k2", "--ref_model", "r"}},
      {Grpo, {"--dynamic_filtering", "--filter_range", "0,1", "--filter_attempts", "3"}},
      {Grpo, {"--reward_model", "a", "b", "--reward_weights", "1", "0.5", "2"}},
      {Grpo, {"--reward_function", "length:limit=10"}},
      {Ppo, {"--num_iterations", "2", "--dual_clip", "3"}},
      {Ppo, {"--kl_target", "6", "--kl_horizon", "100"}},
      {Ppo, {"--use_peft", "--critic_use_peft", "--disable_dropout", "false"}},
      {Ppo, {"--ptx_data", "p", "--ptx_coef", "0.1", "--cache_dir", "c"}},
      {Ppo, {"--actor.gradient_checkpointing", "--gradient_checkpointing_policy", "attention"}}};
  for (const auto& [objective, words] : accepted) {
    Words all{"--model", "m", "--data", "d.jsonl", "--output_dir", "out"};
    if (std::find(words.begin(), words.end(), "--reward_function") == words.end()) {
      all.insert(all.end(), {"--reward_function", "exact_match"});
    }
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(error_of([&, o = objective] { parse_exactly(o, all); }), "") << words.front();
  }
}

TEST(OnlineFlagsInCombination, WithoutARewardThereIsNothingToLearn) {
  for (const Objective objective : {Grpo, Ppo}) {
    expect_error(
        [&] {
          parse_exactly(objective, {"--model", "m", "--data", "d", "--output_dir", "o"});
        },
        "there is no reward to learn from: give --reward_model, --reward_function");
  }
}

}  // namespace
}  // namespace reprise::testing
