// The commands that read and write text (tokenize, generate, score, chat): what comes out, in which
// order, and that it does not depend on how the work was cut up.
#include "app/commands.h"
#include "support/program.h"

#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::Commands;
using testing::expect_refused;
using testing::json_lines;
using testing::run_program;

TEST_F(Commands, TokenizeGivesIdsAndTheirText) {
  const auto lines = run_lines({"tokenize"},
                               "{\"text\": \"The quick brown fox\"}\n\n"
                               "{\"messages\": [{\"role\": \"user\", \"content\": \"fox\"}], "
                               "\"add_generation_prompt\": true}\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["text"], "The quick brown fox");
  EXPECT_LT(lines[0]["input_ids"].size(), 19U);
  EXPECT_EQ(lines[1]["text"], "<|im_start|>user\nfox<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(Commands, GenerateIsReproducibleAndIndependentOfTheBatchSize) {
  const std::string input =
      "{\"prompt\": \"The quick\"}\n{\"prompt\": \"number\"}\n{\"prompt\": \"dog, and\"}\n";
  const std::vector<std::string> sampled = {"generate",
                                            "--max_new_tokens",
                                            "6",
                                            "--temperature",
                                            "1",
                                            "--seed",
                                            "3",
                                            "--num_samples",
                                            "2"};
  const auto together = run_lines(sampled, input);
  auto alone = sampled;
  alone.insert(alone.end(), {"--batch_size", "1"});
  EXPECT_EQ(run_lines(alone, input), together);
  ASSERT_EQ(together.size(), 6U);
  EXPECT_EQ(together[0]["prompt"], together[1]["prompt"]);
  EXPECT_NE(together[0]["completion_ids"], together[1]["completion_ids"]);
  EXPECT_EQ(together[5]["prompt"], "dog, and");
  EXPECT_LE(together[0]["completion_ids"].size(), 6U);
}

TEST_F(Commands, GenerateDrawsManySamplesAFewAtATime) {
  const std::string input = "{\"prompt\": \"The quick\"}\n{\"prompt\": \"number\"}\n";
  const std::vector<std::string> sampled = {
      "generate", "--max_new_tokens", "4", "--temperature", "1", "--num_samples", "5"};
  const auto with_batch_size = [&](const char* size) {
    auto arguments = sampled;
    arguments.insert(arguments.end(), {"--batch_size", size});
    return run_lines(arguments, input);
  };
  const auto at_once = with_batch_size("10");
  ASSERT_EQ(at_once.size(), 10U);
  EXPECT_EQ(with_batch_size("2"), at_once);
  EXPECT_EQ(with_batch_size("7"), at_once);
}

TEST_F(Commands, GeneratePrintsTheTextThatJsonLinesHold) {
  const auto lines = run_lines({"generate", "--max_new_tokens", "8"}, "{\"prompt\": \"The fox\"}");
  const auto text = run_program({"generate",
                                 "--model",
                                 path("model"),
                                 "--prompt",
                                 "The fox",
                                 "--max_new_tokens",
                                 "8",
                                 "--temperature",
                                 "0"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out, lines.at(0)["completion"].get<std::string>() + "\n");
}

TEST_F(Commands, GenerateTakesATextAsAPrompt) {
  const std::vector<std::string> options = {"generate", "--max_new_tokens", "4"};
  EXPECT_EQ(run_lines(options, "{\"text\": \"The fox\"}"),
            run_lines(options, "{\"prompt\": \"The fox\"}"));
  expect_refused(
      run_program({"generate", "--model", path("model")}, "{\"prompt\": \"a\", \"text\": \"b\"}\n"),
      "several");
}

TEST_F(Commands, GenerateEndsBeforeAStopString) {
  const std::string prompt = "{\"prompt\": \"The fox\"}";
  const std::vector<std::string> options = {
      "generate", "--max_new_tokens", "40", "--temperature", "1"};
  const auto full = run_lines(options, prompt).at(0)["completion"].get<std::string>();
  // Some letters from the middle; a fresh model writes much that is none.
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto letter = std::find_if(full.begin() + 10, full.end(), is_letter);
  const std::string stop(letter, std::find_if_not(letter, full.end(), is_letter));
  ASSERT_FALSE(stop.empty()) << full;
  auto stopping = options;
  stopping.insert(stopping.end(), {"--stop", "never there", "--stop", stop});
  const auto line = run_lines(stopping, prompt).at(0);
  EXPECT_EQ(line["completion"], full.substr(0, full.find(stop)));
  EXPECT_EQ(line["finish_reason"], "stop");
  // As text the same is printed, though it came piece by piece.
  stopping.insert(stopping.begin() + 1, {"--model", path("model"), "--prompt", "The fox"});
  EXPECT_EQ(run_program(stopping).out, line["completion"].get<std::string>() + "\n");
}

TEST_F(Commands, ScoreKeepsTheOrderAndIgnoresTheBatchSize) {
  const std::string input =
      "{\"text\": \"The quick brown fox\"}\n{\"input_ids\": [5]}\n{\"input_ids\": []}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"fox\"}]}\n";
  const auto together = run_lines({"score"}, input);
  const auto alone = run_lines({"score", "--batch_size", "1"}, input);
  ASSERT_EQ(together.size(), 4U);
  for (size_t i = 0; i < together.size(); ++i) {
    const auto& found = together[i]["logprobs"];
    ASSERT_EQ(together[i]["input_ids"], alone[i]["input_ids"]);
    ASSERT_EQ(found.size(), together[i]["input_ids"].size());
    for (size_t t = 0; t < found.size(); ++t) {
      if (t == 0) {
        EXPECT_TRUE(found[t].is_null());
      } else {
        EXPECT_NEAR(found[t].get<double>(), alone[i]["logprobs"][t].get<double>(), 1e-4);
      }
    }
  }
  // A fresh model knows nothing: every token is about as likely as any other.
  EXPECT_NEAR(together[0]["logprobs"][1].get<double>(), -std::log(512), 1.0);
}

double value_at(const Json& line, size_t token) {
  return line["logprobs"][token].get<double>();
}

// The largest difference between the log-probabilities of two runs of one text.
double distance(const Json& a, const Json& b) {
  double largest = 0;
  for (size_t t = 1; t < a["logprobs"].size(); ++t) {
    const double difference = std::abs(value_at(a, t) - value_at(b, t));
    EXPECT_TRUE(std::isfinite(difference)) << t;
    largest = std::max(largest, difference);
  }
  return largest;
}

TEST_F(Commands, AutocastIsCloseToFloat32AndNotEqual) {
  const std::string input = "{\"text\": \"The quick brown fox jumps over the lazy dog\"}\n";
  const auto exact = run_lines({"score", "--dtype", "float32"}, input).at(0);
  for (const auto* flag : {"--bf16", "--fp16"}) {
    const auto found = run_lines({"score", flag}, input).at(0);
    ASSERT_GT(found["logprobs"].size(), 4U);
    EXPECT_GT(distance(found, exact), 0) << flag;
    EXPECT_LT(distance(found, exact), 0.1) << flag;
    EXPECT_EQ(run_lines({"generate", flag, "--max_new_tokens", "3"}, input).size(), 1U);
  }
}

TEST_F(Commands, AHeadInFloat32IsNearerToFloat32) {
  const std::string input = "{\"text\": \"The quick brown fox jumps over the lazy dog\"}\n";
  const auto exact = run_lines({"score", "--dtype", "float32"}, input).at(0);
  for (const std::vector<std::string>& mode :
       std::vector<std::vector<std::string>>{{"--dtype", "bfloat16"}, {"--bf16"}}) {
    std::vector<std::string> arguments = {"score"};
    arguments.insert(arguments.end(), mode.begin(), mode.end());
    const auto rounded = run_lines(arguments, input).at(0);
    arguments.emplace_back("--cast_lm_head_to_fp32");
    const auto cast = run_lines(arguments, input).at(0);
    EXPECT_LT(distance(cast, exact), distance(rounded, exact)) << mode.front();
  }
}

TEST_F(Commands, RefuseAutocastOverWeightsThatAreNotFloat32) {
  for (const auto* command : {"score", "generate", "chat"}) {
    expect_refused(
        run_program({command, "--model", path("model"), "--bf16", "--dtype", "bfloat16"}),
        "leave out --dtype bfloat16");
  }
}

TEST_F(Commands, ChatAnswersEveryLineUntilItIsTold) {
  const auto result = run_program(
      {"chat", "--model", path("model"), "--max_new_tokens", "4", "--system", "Be brief."},
      "Hello\n/reset\n\nAgain\n/exit\nNever read\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(std::count(result.out.begin(), result.out.end(), '\n'), 2);
}

// Letters of which each is a token of its own.
std::string tokens(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "XQZK"[i % 4];
  }
  return text;
}

TEST_F(Commands, ChatForgetsTheOldestTurnsWhenTheyNoLongerFit) {
  const auto result = run_program({"chat", "--model", path("model"), "--max_new_tokens", "8"},
                                  tokens(1200) + "\n" + tokens(1200) + "\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("no longer fits"), std::string::npos) << result.err;
}

TEST_F(Commands, ChatKeepsAConversationThatFitsWhateverTheLimitOfAnAnswer) {
  // An answer ends with its first common letter, long before the limit, which is all the room.
  const auto result = run_program({"chat",
                                   "--model",
                                   path("model"),
                                   "--max_new_tokens",
                                   "2048",
                                   "--stop",
                                   "e",
                                   "--stop",
                                   "a",
                                   "--stop",
                                   "o",
                                   "--stop",
                                   " "},
                                  "Hello\nAgain\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(Commands, ChatRefusesAMessageLongerThanTheModelTakes) {
  expect_refused(run_program({"chat", "--model", path("model")}, tokens(2400) + "\n"), "too long");
}

}  // namespace
}  // namespace reprise
