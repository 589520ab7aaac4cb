// Numbers that no run can have, and settings without effect, refused by every command that takes
// them; failures of files come out as one line.
#include "app/commands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::expect_refused;
using testing::run_program;
using Words = std::vector<std::string>;

class Ranges : public testing::Commands {
 protected:
  static testing::ProgramResult run(const std::string& command, const Words& more) {
    Words words{command, "--model", path("model")};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
};

TEST_F(Ranges, OfAPlanAreChecked) {
  const std::pair<Words, const char*> cases[] = {
      {{"--accumulation", "9000000000000000000"}, "expected a whole number from 1 to 1000000"},
      {{"--batch", "9000000000000000000"}, "expected a whole number from 1 to 1000000"},
      {{"--batch", "100000"}, "expected at most 4096 rows"},
      {{"--seq", "9000000000000000000"}, "expected a whole number up to 2147483647"},
      {{"--seq", "100000000"}, "expected at most 4096 rows of 1048576 tokens"}};
  for (const auto& [words, message] : cases) {
    expect_refused(run("plan", words), message);
  }
  const auto largest = run("plan", {"--accumulation", "1000000", "--json", "--device", "h100"});
  ASSERT_EQ(largest.exit_code, 0) << largest.err;
  const Json plan = parse_json(largest.out, "plan");
  EXPECT_EQ(largest.out.find("-0"), std::string::npos);
  EXPECT_TRUE(plan.is_object());
}

TEST_F(Ranges, OfGenerationAndLaunchAreChecked) {
  const std::pair<Words, const char*> cases[] = {
      {{"--temperature", "nan"}, "temperature: expected"},
      {{"--temperature", "inf"}, "temperature: expected"},
      {{"--temperature", "1", "--top_p", "nan"}, "top_p: expected"},
      {{"--temperature", "1", "--min_p", "nan"}, "min_p: expected"},
      {{"--repetition_penalty", "inf"}, "repetition_penalty"}};
  for (const auto& [words, message] : cases) {
    Words all = words;
    all.insert(all.end(), {"--prompt", "The", "--max_new_tokens", "1"});
    expect_refused(run("generate", all), message);
  }
  const auto endless = run("generate", {"--prompt", "The", "--max_new_tokens", "99999999999999"});
  EXPECT_NE(endless.exit_code, 0);
  EXPECT_NE(endless.err.find("--max_new_tokens"), std::string::npos) << endless.err;
  for (const Words& words : {Words{"--nproc", "9000000000000000000"},
                             Words{"--nproc", "2", "--grace", "inf"},
                             Words{"--nproc", "2", "--grace", "nan"}}) {
    Words all{"launch"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--", "sft"});
    expect_refused(run_program(all), "expected at least");
  }
}

TEST_F(Ranges, SettingsOfSamplingHaveNoEffectOnGreedyDecoding) {
  for (const Words& setting : {Words{"--top_k", "5"},
                               Words{"--top_p", "0.5"},
                               Words{"--min_p", "0.1"},
                               Words{"--seed", "3"}}) {
    for (const char* command : {"generate", "chat"}) {
      Words words = setting;
      words.insert(words.end(), {"--temperature", "0"});
      expect_refused(run(command, words), setting[0] + " has no effect with --temperature 0");
    }
  }
  const auto off = run("generate",
                       {"--prompt",
                        "The",
                        "--temperature",
                        "0",
                        "--max_new_tokens",
                        "1",
                        "--top_k",
                        "0",
                        "--top_p",
                        "1",
                        "--min_p",
                        "0"});
  EXPECT_EQ(off.exit_code, 0) << off.err;
  expect_refused(run("generate", {"--prompt", "The", "--batch_size", "4"}),
                 "--batch_size has no effect on one continuation");
}

TEST_F(Ranges, SettingsOfAnotherPrecisionOrOfDropoutHaveNoEffectOnThisModel) {
  for (const char* command : {"generate", "chat", "score"}) {
    expect_refused(run(command, {"--cast_lm_head_to_fp32"}),
                   "--cast_lm_head_to_fp32 has no effect: the model is in float32");
  }
  EXPECT_NE(run("merge", {"--adapter", "a", "--output", "o", "--bf16"}).exit_code, 0);
  std::ofstream(path("data.jsonl")) << "{\"text\": \"The quick brown fox\"}\n";
  const auto sft = [](const Words& more) {
    Words words{"--data", path("data.jsonl"), "--output_dir", path("none"), "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return run("sft", words);
  };
  for (const auto& [word, message] :
       {std::pair{"--disable_dropout", "--disable_dropout has no effect: the model has no dropout"},
        {"--cast_lm_head_to_fp32",
         "--cast_lm_head_to_fp32 has no effect because the model is in"}}) {
    const auto result = sft({word});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(path("none") + "/model.safetensors"));
  }
  // New adapters have dropout.
  const auto lora = sft({"--max_steps", "1", "--disable_dropout", "--lora_r", "2"});
  EXPECT_EQ(lora.exit_code, 0) << lora.err;
  expect_refused(run("plan", {"--disable_dropout"}),
                 "--disable_dropout has no effect: the model has no dropout");
  expect_refused(run("plan", {"--momentum", "0.5"}), "--momentum has no effect with AdamW");
}

TEST_F(Ranges, FailuresOfFilesAreOneLine) {
  fs::create_symlink(path("loop"), path("loop"));
  std::ofstream(path("file")) << "x";
  const std::string circle = "Links lead in a circle: remove one of them";
  expect_refused(run_program({"inspect", path("loop")}), circle);
  expect_refused(run_program({"generate", "--model", path("loop"), "--prompt", "a"}), circle);
  expect_refused(run_program({"tokenize", "--model", path("loop")}), circle);
  expect_refused(run_program({"plan", "--model", path("loop")}), circle);
  expect_refused(run_program({"init", "--text", path("text"), "--output", path("loop")}), circle);
  expect_refused(run_program({"init", "--text", path("text"), "--output", path("file/below")}),
                 "cannot create the folder");
  expect_refused(run_program({"init", "--text", path("text"), "--output", "/proc/none"}),
                 "/proc/none");
}

}  // namespace
}  // namespace reprise
