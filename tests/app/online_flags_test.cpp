// Flags of grpo and ppo: defaults, names, and the options of the library that they become.
#include "app/training_flags.h"

#include "reprise/training/flags/flag_table.h"
#include "reprise/training/options/online_options.h"
#include "reprise/training/options/role_checkpointing.h"

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

using app::CheckpointingRequest;
using app::Role;
using app::TrainingFlags;
using enum Objective;

OnlineOptions options(Objective objective, const Words& words = {}) {
  return app::online_options(parse(objective, words));
}

TEST(OnlineFlags, DefaultsOfGrpoAreTrls) {
  const TrainingFlags flags = parse(Grpo);
  EXPECT_EQ(flags.learning_rate, 1e-6);
  EXPECT_FALSE(flags.disable_dropout);
  const OnlineOptions grpo = app::online_options(flags);
  EXPECT_EQ(grpo.estimator, OnlineEstimator::Grpo);
  EXPECT_EQ(grpo.policy.loss, PolicyLoss::Dapo);
  EXPECT_EQ(grpo.policy.beta, 0);
  EXPECT_TRUE(grpo.policy.kl_bias_correction);
  EXPECT_EQ(grpo.rollout.generate.samples_per_prompt, 8);
  EXPECT_EQ(grpo.rollout.generate.max_new_tokens, 512);
  EXPECT_EQ(grpo.rollout.generate.sampling.temperature, 1);
  EXPECT_EQ(grpo.group.scale, RewardScale::Group);
  EXPECT_FALSE(grpo.group.reward_clip.has_value());
  EXPECT_FALSE(needs_reference(grpo));
}

TEST(OnlineFlags, DefaultsOfPpoAreOpenRlhfsWithTrlsLambda) {
  const TrainingFlags flags = parse(Ppo);
  EXPECT_TRUE(flags.disable_dropout);
  EXPECT_EQ(flags.num_train_epochs, 1);
  const OnlineOptions ppo = app::online_options(flags);
  EXPECT_EQ(ppo.estimator, OnlineEstimator::Gae);
  EXPECT_EQ(ppo.policy.loss, PolicyLoss::Ppo);
  EXPECT_EQ(ppo.rollout.generate.samples_per_prompt, 1);
  EXPECT_EQ(ppo.kl_reward_coef, 0.01);
  EXPECT_EQ(ppo.kl_reward, KlEstimator::K1);
  EXPECT_EQ(ppo.score_clip, std::pair(-10.0, 10.0));
  EXPECT_EQ(ppo.critic_learning_rate, 9e-6);
  EXPECT_EQ(ppo.gamma, 1);
  EXPECT_EQ(ppo.lambda, 0.95);
  EXPECT_EQ(ppo.value.clip, 0.5);
  EXPECT_TRUE(needs_reference(ppo));
}

TEST(OnlineFlags, TheLossIsThatOfTheEstimatorUnlessGiven) {
  const auto loss = [](Words words) { return options(Grpo, words).policy.loss; };
  EXPECT_EQ(loss({"--advantage_estimator", "rloo"}), PolicyLoss::Rloo);
  EXPECT_EQ(loss({"--advantage_estimator", "reinforce"}), PolicyLoss::Ppo);
  EXPECT_EQ(loss({"--advantage_estimator", "reinforce_baseline"}), PolicyLoss::Ppo);
  EXPECT_EQ(loss({"--advantage_estimator", "group_norm"}), PolicyLoss::Dapo);
  EXPECT_EQ(loss({"--advantage_estimator", "rloo", "--loss_type", "dapo"}), PolicyLoss::Dapo);
}

TEST(OnlineFlags, GspoIsGrpoWithRatiosOfSequences) {
  const PolicyOptions gspo = options(Grpo, {"--loss_type", "gspo"}).policy;
  EXPECT_EQ(gspo.loss, PolicyLoss::Grpo);
  EXPECT_EQ(gspo.level, RatioLevel::Sequence);
  EXPECT_EQ(options(Grpo, {"--loss_type", "grpo"}).policy.level, RatioLevel::Token);
  expect_error(
      [] {
        parse(Grpo, {"--loss_type", "gspo", "--importance_sampling_level", "token"});
      },
      "--loss_type gspo has ratios of sequences");
}

TEST(OnlineFlags, ScaleRewardsIsANameOrASwitch) {
  const auto scale = [](const char* name) {
    return options(Grpo, {"--scale_rewards", name}).group.scale;
  };
  EXPECT_EQ(scale("true"), RewardScale::Group);
  EXPECT_EQ(scale("false"), RewardScale::None);
  EXPECT_EQ(scale("batch"), RewardScale::Batch);
}

TEST(OnlineFlags, ANumberOfIterationsIsWhatOtherProgramsCallEpochs) {
  EXPECT_EQ(parse(Ppo, {"--train.max_epochs", "4", "--num_episodes", "2"}).num_iterations, 4);
  EXPECT_EQ(parse(Ppo, {"--train.max_epochs", "4", "--num_episodes", "2"}).num_train_epochs, 2);
  EXPECT_EQ(parse(Grpo, {"--ppo_epochs", "2"}).num_iterations, 2);
  EXPECT_EQ(parse(Sft, {"--max_epochs", "4"}).num_train_epochs, 4);
}

TEST(OnlineFlags, RewardsAreClippedWhereTheEstimatorLooksAtThem) {
  const Words words{"--reward_clip_range", "-5", "5"};
  const std::pair range(-5.0, 5.0);
  EXPECT_EQ(options(Grpo, words).group.reward_clip, range);
  EXPECT_FALSE(options(Grpo, words).score_clip.has_value());
  EXPECT_EQ(options(Ppo, words).score_clip, range);
  EXPECT_FALSE(options(Ppo, words).group.reward_clip.has_value());
}

TEST(OnlineFlags, ACorrectionBringsTheRangeOfTheProgramThatNamedIt) {
  const auto policy = [](Words words) {
    words.insert(words.begin(), "--importance_sampling_correction");
    return options(Grpo, words).policy;
  };
  EXPECT_FALSE(policy({"sequence_mask"}).mismatch_least.has_value());
  EXPECT_EQ(policy({"sequence_mask"}).mismatch_greatest, 3);
  EXPECT_EQ(policy({"icepop"}).mismatch_least, 0.5);
  EXPECT_EQ(policy({"icepop"}).mismatch_greatest, 5);
  EXPECT_EQ(policy({"tis", "--importance_sampling_clip_max", "2"}).mismatch_greatest, 2);
}

TEST(OnlineFlags, TheKlIsInTheLossOrInTheReward) {
  const OnlineOptions in_loss = options(Ppo, {"--beta", "0.1", "--kl_estimator", "k2"});
  EXPECT_EQ(in_loss.policy.kl, KlEstimator::K2);
  EXPECT_FALSE(in_loss.policy.kl_bias_correction);
  EXPECT_EQ(in_loss.kl_reward_coef, 0);
  EXPECT_EQ(options(Ppo, {"--kl_estimator", "k3"}).kl_reward, KlEstimator::K3);
  EXPECT_TRUE(needs_reference(options(Grpo, {"--beta", "0.04"})));
  EXPECT_EQ(options(Ppo, {"--kl_target", "6"}).kl_target, 6);
}

TEST(OnlineFlags, AreOptionsOfTheRollout) {
  const RolloutOptions rollout = options(Grpo,
                                         {"--temperature",
                                          "0.7",
                                          "--top_k",
                                          "5",
                                          "--top_p",
                                          "0.9",
                                          "--min_p",
                                          "0.1",
                                          "--seed",
                                          "7",
                                          "--stop_strings",
                                          "a, b",
                                          "c",
                                          "--max_new_tokens",
                                          "16",
                                          "--repetition_penalty",
                                          "1.5",
                                          "--rollout_batch_size",
                                          "3"})
                                     .rollout;
  const auto& sampling = rollout.generate.sampling;
  EXPECT_EQ(sampling.temperature, 0.7);
  EXPECT_EQ(sampling.top_k, 5);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.seed, 7U);
  EXPECT_EQ(rollout.generate.stop_strings, (Words{"a, b", "c"}));
  EXPECT_EQ(rollout.generate.max_new_tokens, 16);
  EXPECT_EQ(rollout.batch_size, 3);
}

TEST(OnlineFlags, AreOptionsOfTheCritic) {
  const OnlineOptions ppo = options(Ppo,
                                    {"--cliprange_value",
                                     "0.2",
                                     "--vf_coef",
                                     "0.1",
                                     "--lam",
                                     "1",
                                     "--critic_learning_rate",
                                     "1e-5",
                                     "--critic_warmup_steps",
                                     "3",
                                     "--score_place",
                                     "every_token",
                                     "--whitening",
                                     "trl"});
  EXPECT_EQ(ppo.value.clip, 0.2);
  EXPECT_EQ(ppo.value.coefficient, 0.1);
  EXPECT_EQ(ppo.lambda, 1);
  EXPECT_EQ(ppo.critic_learning_rate, 1e-5);
  EXPECT_EQ(ppo.critic_warmup_steps, 3);
  EXPECT_EQ(ppo.score_place, ScorePlace::EveryToken);
  EXPECT_EQ(ppo.whitening, Whitening::Trl);
  EXPECT_FALSE(options(Ppo, {"--value_clip", "0"}).value.clip.has_value());
  EXPECT_EQ(options(Ppo).pretraining_coef, 0);
  EXPECT_EQ(options(Ppo, {"--ptx_data", "p"}).pretraining_coef, 0.05);
}

TEST(OnlineFlags, EveryChoiceIsOneThatTheLibraryKnows) {
  const auto choices = [](const char* flag) { return app::find_flag(Grpo, flag)->choices; };
  for (const auto& name : choices("advantage_estimator")) {
    EXPECT_NO_THROW(parse_online_estimator(name)) << name;
  }
  for (const auto& name : choices("loss_type")) {
    EXPECT_EQ(parse_error(Grpo, {"--loss_type", name}), "") << name;
  }
  for (const auto& name : choices("importance_sampling_correction")) {
    EXPECT_NO_THROW(parse_mismatch_correction(name)) << name;
  }
  for (const auto& name : choices("multi_objective_aggregation")) {
    EXPECT_NO_THROW(parse_reward_aggregation(name)) << name;
  }
  for (const auto& name : choices("kl_estimator")) {
    EXPECT_NO_THROW(parse_kl_estimator(name)) << name;
  }
  for (const auto& name : app::find_flag(Ppo, "score_place")->choices) {
    EXPECT_NO_THROW(parse_score_place(name)) << name;
  }
}

TEST(OnlineFlags, ASavedConfigurationGivesTheSameRun) {
  const std::pair<Objective, Words> runs[] = {
      {Grpo, {"--loss_type", "gspo", "--beta", "0.1", "--num_iterations", "2", "--epsilon", "0.1"}},
      {Grpo, {"--advantage_estimator", "rloo", "--kl_coef", "0.05"}},
      {Ppo, {"--beta", "0.1", "--critic.gradient_checkpointing", "--reward_weights", "0.5"}}};
  for (const auto& [objective, words] : runs) {
    const Json resolved = app::resolved_configuration(parse(objective, words));
    const ConfigFile saved(app::to_yaml(resolved));
    EXPECT_EQ(app::resolved_configuration(parse_exactly(objective, {"--config", saved.path()})),
              resolved);
  }
}

CheckpointingRequest ppo_request(Role role, const Words& words) {
  return app::checkpointing_request(parse(Ppo, words), role);
}

TEST(RoleCheckpointing, WithoutARoleIsForBoth) {
  const Words words{"--gradient_checkpointing", "--gradient_checkpointing_policy", "attention"};
  for (const Role role : {Role::Actor, Role::Critic}) {
    EXPECT_TRUE(ppo_request(role, words).enabled);
    EXPECT_EQ(ppo_request(role, words).policy, "attention");
    EXPECT_FALSE(ppo_request(role, {}).enabled);
  }
}

TEST(RoleCheckpointing, OfARoleIsForItAlone) {
  EXPECT_TRUE(ppo_request(Role::Actor, {"--actor.gradient_checkpointing"}).enabled);
  EXPECT_FALSE(ppo_request(Role::Critic, {"--actor.gradient_checkpointing"}).enabled);
  EXPECT_TRUE(ppo_request(Role::Critic, {"--critic.gradient_checkpointing"}).enabled);
  const Words words{"--gradient_checkpointing", "--critic.gradient_checkpointing", "false"};
  EXPECT_TRUE(ppo_request(Role::Actor, words).enabled);
  EXPECT_FALSE(ppo_request(Role::Critic, words).enabled);
}

TEST(RoleCheckpointing, ARolesChoiceOfBlocksReplacesThatOfBoth) {
  const Words words{"--gradient_checkpointing",
                    "--gradient_checkpointing_ratio",
                    "0.5",
                    "--critic.gradient_checkpointing_layers",
                    "0,2"};
  EXPECT_EQ(ppo_request(Role::Actor, words).blocks, "ratio:0.5");
  EXPECT_EQ(ppo_request(Role::Critic, words).blocks, "list:0,2");
}

TEST(RoleCheckpointing, TakesAllSettingsOfTheFamily) {
  const Words words{"--critic.gradient_checkpointing",
                    "--critic.gradient_checkpointing_kwargs",
                    R"({"every_n_layers": 2, "early_stop": false})",
                    "--critic.gradient_checkpointing_policy",
                    "matmuls",
                    "--actor.gradient_checkpointing_enable",
                    "--actor.gradient_checkpointing_reentrant"};
  EXPECT_EQ(ppo_request(Role::Critic, words).blocks, "every:2");
  EXPECT_FALSE(ppo_request(Role::Critic, words).early_stop);
  EXPECT_EQ(ppo_request(Role::Critic, words).policy, "matmuls");
  EXPECT_TRUE(ppo_request(Role::Actor, words).use_reentrant);
  EXPECT_EQ(ppo_request(Role::Actor, words).policy, "full");
}

TEST(RoleCheckpointing, OfGrpoIsThatOfItsOneModel) {
  EXPECT_TRUE(parse(Grpo, {"--actor.gradient_checkpointing"}).gradient_checkpointing);
  EXPECT_EQ(parse(Grpo, {"--grad_checkpoint", "--actor.gradient_checkpointing_policy", "attention"})
                .gradient_checkpointing_policy,
            "attention");
}

}  // namespace
}  // namespace reprise::testing
