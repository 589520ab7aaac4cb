// The commands that use a model, on one that `init` makes: what comes out, in which order, and what
// is refused with which exit code.
#include "support/fixtures.h"
#include "support/program.h"

#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::ProgramResult;
using testing::run_program;

std::string training_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "The quick brown fox jumps over the lazy dog, and number " + std::to_string(i * i) +
            " comes after it. Żółw, naïve, 日本語 und so weiter!\n";
  }
  return text;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(parse_json(line, "output"));
  }
  return lines;
}

void expect_refused(const ProgramResult& result, const std::string& message) {
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(result.err.starts_with("reprise: ")) << result.err;
  EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

class Commands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    std::ofstream(folder_->path() / "text") << training_text();
    const auto made = run_program({"init", "--text", path("text"), "--output", path("model")});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return (folder_->path() / name).string(); }
  /// The folder's entries, to see that nothing is left over.
  static size_t entries() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_->path()), {}));
  }
  static std::vector<Json> run_lines(std::vector<std::string> arguments, const std::string& input) {
    arguments.insert(arguments.begin() + 1, {"--model", path("model")});
    const auto result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json_lines(result.out);
  }

 private:
  static inline std::unique_ptr<testing::TemporaryFolder> folder_;
};

TEST_F(Commands, InitIsReproducible) {
  ASSERT_EQ(run_program({"init", "--text", path("text"), "--output", path("again")}).exit_code, 0);
  for (const auto* file : {"model.safetensors", "config.json", "tokenizer.json"}) {
    EXPECT_EQ(testing::read_text(path("model") + "/" + file),
              testing::read_text(path("again") + "/" + file))
        << file;
  }
  fs::remove_all(path("again"));
}

TEST_F(Commands, InitRefusesAFolderThatIsNotEmpty) {
  const auto before = entries();
  expect_refused(run_program({"init", "--text", path("text"), "--output", path("model")}),
                 "is there already");
  EXPECT_EQ(entries(), before);
}

TEST_F(Commands, InitLeavesNothingWhenItFails) {
  const auto before = entries();
  std::ofstream(path("bad.json")) << R"({"model_type": "no such family"})";
  expect_refused(
      run_program(
          {"init", "--config", path("bad.json"), "--text", path("text"), "--output", path("new")}),
      "no such family");
  fs::remove(path("bad.json"));
  EXPECT_EQ(entries(), before);
}

TEST_F(Commands, InitFillsTheEmptyFolderThatALinkNames) {
  fs::create_directory(path("empty"));
  fs::create_directory_symlink("empty", path("link"));
  const auto made = run_program({"init", "--text", path("text"), "--output", path("link")});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::exists(path("empty") + "/config.json"));
  fs::remove_all(path("empty"));
  // Now it names nothing.
  expect_refused(run_program({"init", "--text", path("text"), "--output", path("link")}), "link");
  fs::remove(path("link"));
}

TEST_F(Commands, InspectSaysWhatTheFolderHolds) {
  const auto result = run_program({"inspect", path("model"), "--dtype", "bfloat16"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const auto* expected : {"llama", "LlamaForCausalLM", "4 layers", "BPE", "AdamW state"}) {
    EXPECT_NE(result.out.find(expected), std::string::npos) << result.out;
  }
}

TEST_F(Commands, InspectWarnsOfATokenizerThatCannotBeOpened) {
  fs::copy(path("model"), path("broken"));
  std::ofstream(path("broken") + "/tokenizer.json") << R"({"model": {"type": "Strange"}})";
  const auto result = run_program({"inspect", path("broken")});
  fs::remove_all(path("broken"));
  EXPECT_EQ(result.exit_code, 0);
  for (const auto* expected : {"not usable: ", "LlamaForCausalLM", "KV cache"}) {
    EXPECT_NE(result.out.find(expected), std::string::npos) << result.out;
  }
  EXPECT_TRUE(result.err.starts_with("warning: the tokenizer")) << result.err;
}

TEST_F(Commands, InspectSaysThatAFileIsNotAFolder) {
  expect_refused(run_program({"inspect", path("text")}), "is a file, not a folder");
}

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
                                  tokens(300) + "\n" + tokens(300) + "\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("no longer fits"), std::string::npos) << result.err;
}

TEST_F(Commands, ChatKeepsAConversationThatFitsWhateverTheLimitOfAnAnswer) {
  // An answer ends with its first common letter, long before the limit, which is all the room.
  const auto result = run_program({"chat",
                                   "--model",
                                   path("model"),
                                   "--max_new_tokens",
                                   "512",
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
  expect_refused(run_program({"chat", "--model", path("model")}, tokens(600) + "\n"), "too long");
}

TEST_F(Commands, NameTheLineThatIsWrong) {
  const std::string model = path("model");
  expect_refused(run_program({"tokenize", "--model", model}, "{\"text\": \"a\"}\n{\"text\": \n"),
                 "line 2");
  expect_refused(run_program({"tokenize", "--model", model}, "\n\n[1]\n"), "line 3");
  expect_refused(run_program({"tokenize", "--model", model}, "{\"txt\": \"a\"}\n"), "line 1");
  expect_refused(run_program({"score", "--model", model}, "{\"input_ids\": [100000]}\n"), "line 1");
  expect_refused(run_program({"score", "--model", model}, "{\"input_ids\": \"1\"}\n"), "line 1");
  expect_refused(run_program({"generate", "--model", model}, "{\"prompt\": \"\"}\n"), "line 1");
  expect_refused(
      run_program({"generate", "--model", model}, "{\"prompt\": \"a\", \"messages\": []}\n"),
      "several");
}

TEST_F(Commands, GiveThePlaceInABadLineOnce) {
  const auto result = run_program({"tokenize", "--model", path("model")}, "\n{\"text\": oh}\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(result.err.starts_with("reprise: line 2: column 10: ")) << result.err;
}

TEST_F(Commands, WriteTheResultsOfTheLinesBeforeABadOne) {
  const std::string input = "{\"text\": \"The fox\"}\n{\"text\": \"The dog\"}\n";
  for (const auto* command : {"score", "generate"}) {
    std::vector<std::string> arguments = {command, "--model", path("model")};
    if (std::string(command) == "generate") {
      arguments.insert(arguments.end(), {"--max_new_tokens", "3"});
    }
    const auto good = run_program(arguments, input);
    ASSERT_EQ(json_lines(good.out).size(), 2U) << good.err;
    for (const auto* bad : {"{\"text\": \n", "{\"input_ids\": [100000]}\n"}) {
      const auto result = run_program(arguments, input + bad + input);
      expect_refused(result, "line 3: ");
      EXPECT_EQ(result.out, good.out) << command;
    }
  }
}

TEST_F(Commands, NameTheFolderThatIsNotThere) {
  for (const auto* command : {"tokenize", "score", "generate", "chat"}) {
    expect_refused(run_program({command, "--model", path("missing")}), path("missing"));
  }
  expect_refused(run_program({"inspect", path("missing")}), path("missing"));
  expect_refused(run_program({"import", path("missing"), path("new")}), path("missing"));
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(Commands, ACommandLineThatIsNotUnderstoodHasItsOwnExitCode) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"no_such_command"},
           {"generate"},
           {"generate", "--model", path("model"), "--no_such_flag"},
           {"generate", "--model", path("model"), "--chat"},
           {"score", "--model", path("model"), "--batch_size", "0"},
           {"score", "--model", path("model"), "--bf16", "--fp16"},
           {"score", "--model", path("model"), "--dtype", "int4"}}) {
    const auto result = run_program(arguments);
    EXPECT_GE(result.exit_code, 100);
    EXPECT_FALSE(result.err.empty());
    EXPECT_TRUE(result.out.empty()) << result.out;
  }
  const auto help = run_program({"generate", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("--repetition_penalty"), std::string::npos);
}

TEST_F(Commands, RefuseSamplingThatHasNoMeaning) {
  expect_refused(
      run_program({"generate", "--model", path("model"), "--prompt", "a", "--top_p", "2"}),
      "top_p");
}

TEST(ScoreCommand, EqualsTransformersWithoutATokenizer) {
  const auto folder = testing::fixtures() / "models" / "llama";
  const SafetensorsFile expected(folder / "expected.safetensors");
  const auto ids = expected.view(*expected.find("input_ids"));
  const auto mask = expected.view(*expected.find("attention_mask"));
  const auto logprobs = expected.view(*expected.find("logits")).log_softmax(-1);
  std::string input;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const auto tokens = ids[row].masked_select(mask[row].to(at::kBool)).contiguous();
    const Json line = {{"input_ids",
                        std::vector<int64_t>(tokens.const_data_ptr<int64_t>(),
                                             tokens.const_data_ptr<int64_t>() + tokens.numel())}};
    input += line.dump() + "\n";
  }
  const auto result = run_program({"score", "--model", folder.string()}, input);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = json_lines(result.out);
  ASSERT_EQ(static_cast<int64_t>(lines.size()), ids.size(0));
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const auto& found = lines[static_cast<size_t>(row)]["logprobs"];
    for (size_t t = 1; t < found.size(); ++t) {
      const auto place = static_cast<int64_t>(t);
      EXPECT_NEAR(
          found[t].get<double>(), logprobs[row][place - 1][ids[row][place]].item<double>(), 1e-4);
    }
  }
}

TEST(MergeCommand, EqualsPeftAndOpensAgain) {
  const testing::TemporaryFolder folder;
  const auto base = testing::fixtures() / "models" / "llama";
  const auto adapter = testing::fixtures() / "adapters" / "llama_qv";
  const std::string merged = (folder.path() / "merged").string();
  const auto made = run_program(
      {"merge", "--model", base.string(), "--adapter", adapter.string(), "--output", merged});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const SafetensorsFile expected(adapter / "expected.safetensors");
  const SafetensorsCheckpoint found(merged);
  size_t compared = 0;
  for (const auto& info : expected.tensors()) {
    const std::string prefix = "merged.";
    if (info.name.starts_with(prefix)) {
      EXPECT_TRUE(at::allclose(
          found.view(info.name.substr(prefix.size())), expected.view(info), 1e-5, 1e-6))
          << info.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
  const std::string input = "{\"input_ids\": [5, 9, 3, 7]}\n";
  const auto with_adapter =
      run_program({"score", "--model", base.string(), "--adapter", adapter.string()}, input);
  const auto after = run_program({"score", "--model", merged}, input);
  const Json a = json_lines(with_adapter.out).at(0)["logprobs"];
  const Json b = json_lines(after.out).at(0)["logprobs"];
  for (size_t t = 1; t < a.size(); ++t) {
    EXPECT_NEAR(a[t].get<double>(), b[t].get<double>(), 1e-4);
  }
}

}  // namespace
}  // namespace reprise
