// An adapter's folder as --model: it is trained further, and every command takes it.
#include "app/training.h"

#include <cmath>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::expect_refused;
using testing::json_lines;
using testing::read_text;
using testing::run_program;
using testing::training_fixture;
using testing::Words;

class AdapterFolder : public testing::Training {
 protected:
  /// Trains an adapter of the policy, in the folder "first".
  void make_adapter() const {
    const auto result = sft(training_fixture("data/sft_text.jsonl"),
                            {"--lora_r", "4", "--lora_dropout", "0", "--learning_rate", "1e-2"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    fs::rename(path("out"), path("first"));
  }

  testing::ProgramResult dpo(const Words& more) const {
    Words words{"--data", training_fixture("data/pairs.jsonl"), "--overwrite_output_dir"};
    words.insert(words.end(), more.begin(), more.end());
    return train("dpo", words);
  }
};

TEST_F(AdapterFolder, IsTrainedFurtherAsIfItsBaseAndItWereGiven) {
  make_adapter();
  const auto result = dpo({"--model", path("first")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "as it is now, it is the reference")) << result.err;
  const auto weights = read_text(path("out/adapter_model.safetensors"));
  EXPECT_NE(weights, read_text(path("first/adapter_model.safetensors")));
  // Policy and reference are equal before the first step: the loss is ln 2.
  EXPECT_NEAR(metrics().front()["loss"].get<double>(), std::log(2.0), 1e-6);
  ASSERT_EQ(
      dpo({"--model", training_fixture("models/policy"), "--adapter", path("first")}).exit_code, 0);
  EXPECT_EQ(read_text(path("out/adapter_model.safetensors")), weights);
  const auto again =
      run_program({"dpo", "--config", path("out/training.yaml"), "--output_dir", path("again")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(read_text(path("again/adapter_model.safetensors")), weights);
}

TEST_F(AdapterFolder, TakesLoraFlagsThatAgreeAndRefusesOthers) {
  make_adapter();
  const auto agreeing = dpo({"--model",
                             path("first"),
                             "--use_peft",
                             "--lora_r",
                             "4",
                             "--lora_alpha",
                             "32",
                             "--lora_target_modules",
                             "all-linear"});
  EXPECT_EQ(agreeing.exit_code, 0) << agreeing.err;
  const auto some = dpo({"--model",
                         training_fixture("models/adapter"),
                         "--lora_target_modules",
                         "q_proj,v_proj,down_proj"});
  EXPECT_EQ(some.exit_code, 0) << some.err;
  const auto all =
      dpo({"--model", training_fixture("models/adapter"), "--lora_target_modules", "all-linear"});
  EXPECT_NE(all.exit_code, 0);
  EXPECT_TRUE(contains(all.err, "--lora_target_modules all-linear: the adapter")) << all.err;
  expect_refused(dpo({"--model", path("first"), "--lora_r", "8"}),
                 "--lora_r 8: the adapter " + path("first") + " is trained further, and has 4");
  expect_refused(dpo({"--model", path("first"), "--lora_target_modules", "q_proj"}),
                 "reprise merge --model " + path("first") + " --output MERGED");
  expect_refused(dpo({"--model", path("first"), "--use_peft", "false"}),
                 "reprise merge --model " + path("first") + " --output MERGED");
}

TEST_F(AdapterFolder, IsTakenByEveryCommandWithAModel) {
  make_adapter();
  const std::string policy = training_fixture("models/policy");
  const std::string input = "{\"text\": \"Emiko found nine pears.\"}\n";
  const auto score = run_program({"score", "--model", path("first")}, input);
  ASSERT_EQ(score.exit_code, 0) << score.err;
  EXPECT_EQ(score.out,
            run_program({"score", "--model", policy, "--adapter", path("first")}, input).out);
  EXPECT_NE(score.out, run_program({"score", "--model", policy}, input).out);
  const auto merged = run_program({"merge", "--model", path("first"), "--output", path("merged")});
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  const Json with = json_lines(score.out).at(0)["logprobs"];
  const auto after = run_program({"score", "--model", path("merged")}, input);
  ASSERT_EQ(after.exit_code, 0) << after.err;
  const Json without = json_lines(after.out).at(0)["logprobs"];
  ASSERT_EQ(with.size(), without.size());
  for (size_t t = 1; t < with.size(); ++t) {
    EXPECT_NEAR(with[t].get<double>(), without[t].get<double>(), 1e-4);
  }
  for (const Words& words :
       {Words{"generate", "--model", path("first"), "--prompt", "Emiko", "--max_new_tokens", "4"},
        Words{"inspect", path("first")},
        Words{"tokenize", "--model", path("first")},
        Words{"plan", "--model", path("first"), "--max_length", "32"}}) {
    const auto result = run_program(words);
    EXPECT_EQ(result.exit_code, 0) << words.front() << "\n" << result.err;
  }
  const auto chat =
      run_program({"chat", "--model", path("first"), "--max_new_tokens", "4"}, "Hi\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
}

TEST_F(AdapterFolder, ServesAsTeacherAndReference) {
  make_adapter();
  const auto distilled = train("kd",
                               {"--model",
                                training_fixture("models/policy"),
                                "--teacher_model",
                                path("first"),
                                "--data",
                                training_fixture("data/sft_completion.jsonl")});
  EXPECT_EQ(distilled.exit_code, 0) << distilled.err;
  const auto preferred =
      dpo({"--model", training_fixture("models/policy"), "--ref_model", path("first")});
  EXPECT_EQ(preferred.exit_code, 0) << preferred.err;
}

TEST_F(AdapterFolder, SaysWhatIsMissingWhenItsBaseIsNotThere) {
  make_adapter();
  Json config = read_json(path("first/adapter_config.json"));
  config["base_model_name_or_path"] = "somebody/some-model";
  write_json(path("first/adapter_config.json"), config);
  for (const Words& words : {Words{"score", "--model", path("first")},
                             Words{"dpo",
                                   "--model",
                                   path("first"),
                                   "--data",
                                   training_fixture("data/pairs.jsonl"),
                                   "--output_dir",
                                   path("out")}}) {
    expect_refused(run_program(words),
                   "its base model is somebody/some-model, and there is no such folder here: give "
                   "the base model's folder as --base");
  }
  const std::string policy = training_fixture("models/policy");
  const auto scored =
      run_program({"score", "--model", path("first"), "--base", policy}, "{\"text\": \"a\"}\n");
  EXPECT_EQ(scored.exit_code, 0) << scored.err;
  const auto trained = dpo({"--model", path("first"), "--base", policy});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  expect_refused(run_program({"score", "--model", policy, "--base", policy}, ""),
                 "--base has no effect");
  expect_refused(run_program({"score", "--model", path("first"), "--base", path("first")}, ""),
                 "is an adapter itself");
}

}  // namespace
}  // namespace reprise
