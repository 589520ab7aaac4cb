// What grpo and ppo refuse when they see models, data and rewards: before minutes of loading, and
// with nothing written.
#include "app/online_training.h"

#include <torch/cuda.h>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::OnlineTraining;
using testing::ProgramResult;
using testing::training_fixture;
using testing::Words;

class OnlineRefusals : public OnlineTraining {
 protected:
  void expect_refused(const ProgramResult& result, const std::string& message) const {
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_TRUE(contains(result.err, message)) << result.err;
    EXPECT_FALSE(fs::exists(folder_.path() / "out")) << "something was written";
  }
};

TEST_F(OnlineRefusals, PromptsAndCompletionsThatTheModelHasNoPositionsFor) {
  const auto run = [&](const Words& lengths) {
    Words words{"grpo",
                "--model",
                training_fixture("models/policy"),
                "--data",
                write("prompts.jsonl", kPrompts),
                "--output_dir",
                path("out"),
                "--reward_function",
                "length:limit=1"};
    words.insert(words.end(), lengths.begin(), lengths.end());
    return testing::run_program(words);
  };
  expect_refused(run({"--max_prompt_length", "100", "--max_completion_length", "200"}),
                 "are 300 tokens together: --model " + training_fixture("models/policy") +
                     " has 256 positions. Give --allow_untrained_positions to go beyond them");
  expect_refused(run({"--max_completion_length", "256"}),
                 "--max_completion_length 256 leaves no room for prompts");
}

TEST_F(OnlineRefusals, AColumnThatARewardNeedsBeforeTheModelIsLoaded) {
  // A model with other weights: loading it would be another error.
  fs::copy(training_fixture("models/policy"), path("model"));
  fs::copy_file(training_fixture("models/adapter/adapter_model.safetensors"),
                path("model/model.safetensors"),
                fs::copy_options::overwrite_existing);
  const auto result = testing::run_program({"grpo",
                                            "--model",
                                            path("model"),
                                            "--data",
                                            write("prompts.jsonl", kPrompts),
                                            "--output_dir",
                                            path("out"),
                                            "--max_completion_length",
                                            "8",
                                            "--reward_function",
                                            "exact_match:answer=solution_text"});
  expect_refused(result, "prompts.jsonl:1: ");
  EXPECT_TRUE(contains(result.err, "solution_text")) << result.err;
}

TEST_F(OnlineRefusals, ALanguageModelAsRewardModel) {
  expect_refused(online("grpo", {"--reward_model", training_fixture("models/policy")}),
                 "expected a reward model, as reprise rm makes them");
}

TEST_F(OnlineRefusals, AnAdapterAsRewardModel) {
  expect_refused(online("grpo", {"--reward_model", training_fixture("models/adapter")}),
                 "is a LoRA adapter; make a model of it first");
}

TEST_F(OnlineRefusals, AVerifierThatThereIsNot) {
  expect_refused(online("grpo", {"--reward_function", "exactly"}), "exact_match");
}

TEST_F(OnlineRefusals, ToOffloadWhereThereIsNoGpu) {
  if (torch::cuda::is_available()) {
    GTEST_SKIP() << "there is a GPU";
  }
  const auto result = testing::run_program({"grpo",
                                            "--model",
                                            training_fixture("models/policy"),
                                            "--data",
                                            write("prompts.jsonl", kPrompts),
                                            "--output_dir",
                                            path("out"),
                                            "--reward_function",
                                            "length:limit=1",
                                            "--offload_optimizer"});
  expect_refused(result, "--optimizer_offload has no effect without a GPU");
}

TEST_F(OnlineRefusals, PromptsThatAreAllTooLong) {
  expect_refused(grpo({"--max_prompt_length", "1"}), "prompts.jsonl");
}

TEST_F(OnlineRefusals, ARewardCommandThatDiesAndKeepsTheLastCheckpoint) {
  // Its first life answers the first generation, of four completions, and then ends.
  const auto command =
      write("reward.sh", "for i in 1 2 3 4; do read line || exit 3; echo $i; done\nexit 3\n");
  const auto result =
      online("grpo",
             {"--reward_command",
              "test -e " + path("died") + " && exit 3; touch " + path("died") + "; sh " + command,
              "--save_steps",
              "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "reward")) << result.err;
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "checkpoint-1")) << result.err;
}

TEST_F(OnlineRefusals, ToGoOnWithOtherSettingsButNotWithOtherMemory) {
  ASSERT_EQ(grpo({"--save_steps", "1"}).exit_code, 0);
  fs::remove_all(path("out/checkpoint-2"));
  fs::remove(path("out/model.safetensors"));
  const auto other =
      grpo({"--save_steps", "1", "--resume_from_checkpoint", "auto", "--temperature", "0.5"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.err, "--temperature: was 1.0, now 0.5")) << other.err;
  const auto same =
      grpo({"--save_steps", "1", "--resume_from_checkpoint", "auto", "--gradient_checkpointing"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
}

}  // namespace
}  // namespace reprise
