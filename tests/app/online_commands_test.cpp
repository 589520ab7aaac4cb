// grpo and ppo, run as a user runs them: what they leave behind, and what does not change it.
#include "app/online_training.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::OnlineTraining;
using testing::Words;

TEST_F(OnlineTraining, GrpoLeavesAModelMetricsSamplesAndAReport) {
  const auto result = grpo({"--gradient_checkpointing", "--eval_data", path("prompts.jsonl")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "rewards: regex")) << result.err;
  EXPECT_TRUE(contains(result.err, "eval_reward")) << result.err;
  for (const char* file :
       {"model.safetensors", "tokenizer.json", "training.yaml", "runs", "samples.jsonl"}) {
    EXPECT_TRUE(fs::exists(folder_.path() / "out" / file)) << file;
  }
  const auto samples = MetricsFile::read(folder_.path() / "out" / "samples.jsonl");
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_TRUE(contains(testing::read_text(path("out/report.html")),
                       samples.front()["prompt"].get<std::string>()));
  const auto lines = metrics();
  ASSERT_GE(lines.size(), 2U);
  for (const char* key : {"loss",
                          "reward",
                          "reward_std",
                          "rewards/regex/mean",
                          "completions/mean_length",
                          "completions/mean_terminated_length",
                          "completions/min_terminated_length",
                          "completions/max_terminated_length",
                          "clip_ratio/low_min",
                          "clip_ratio/high_max",
                          "sampling/sampling_logp_difference/mean",
                          "sampling/sampling_logp_difference/max",
                          "step_time",
                          "rollout_ms",
                          "scoring_ms",
                          "update_ms",
                          "rollout_peak_bytes",
                          "update_peak_bytes"}) {
    EXPECT_TRUE(lines.front().contains(key)) << key;
  }
}

TEST_F(OnlineTraining, PpoMakesItsCriticOfTheRewardModelAndSavesBoth) {
  const auto result = ppo({"--critic.gradient_checkpointing"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "models/score (the reward model)")) << result.err;
  EXPECT_TRUE(contains(result.err, "activation checkpointing of the critic: 2 of 2 blocks"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "activation checkpointing: off")) << result.err;
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "critic" / "model.safetensors"));
  EXPECT_TRUE(metrics().front().contains("critic/loss"));
}

TEST_F(OnlineTraining, PpoWithoutARewardModelMakesItsCriticOfThePolicy) {
  const auto result = online("ppo", {"--reward_function", "regex:pattern=[aeiou]"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "(the policy's model, with a new head)")) << result.err;
}

TEST_F(OnlineTraining, MemoryPoliciesOfEitherRoleChangeNoBit) {
  const Words policies[] = {{},
                            {"--gradient_checkpointing"},
                            {"--gradient_checkpointing",
                             "--gradient_checkpointing_policy",
                             "attention",
                             "--critic.gradient_checkpointing",
                             "false"}};
  std::string policy, critic;
  for (Words words : policies) {
    words.emplace_back("--overwrite_output_dir");
    const auto result = ppo(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    if (policy.empty()) {
      policy = weights();
      critic = weights("out/critic/model.safetensors");
    }
    EXPECT_EQ(weights(), policy);
    EXPECT_EQ(weights("out/critic/model.safetensors"), critic);
  }
}

TEST_F(OnlineTraining, LoraSavesAdaptersOfThePolicyAndIfAskedOfTheCritic) {
  const auto result =
      ppo({"--lora_r", "4", "--critic_use_peft", "--lora_target_modules", "q_proj,v_proj"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "adapter_model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "critic" / "adapter_model.safetensors"));
}

// Between the steps of one generation, of which half has been learned from.
TEST_F(OnlineTraining, GoesOnInTheMiddleOfAGenerationToTheSameBytes) {
  const Words words{"--steps_per_generation",
                    "2",
                    "--num_iterations",
                    "2",
                    "--kl_target",
                    "1",
                    "--save_steps",
                    "1"};
  ASSERT_EQ(ppo(words).exit_code, 0);
  const auto whole = weights();
  const auto samples = testing::read_text(path("out/samples.jsonl"));
  for (const char* name : {"checkpoint-2", "model.safetensors", "critic"}) {
    fs::remove_all(folder_.path() / "out" / name);
  }
  Words again = words;
  again.insert(again.end(), {"--resume_from_checkpoint", "auto"});
  const auto result = ppo(again);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "resuming after step 1 of 2")) << result.err;
  EXPECT_EQ(weights(), whole);
  EXPECT_EQ(testing::read_text(path("out/samples.jsonl")), samples);
}

}  // namespace
}  // namespace reprise
