// Rows that are longer than --max_length or than the positions of a model: both are said at the
// start of a run.
#include "app/training.h"

#include <regex>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::expect_refused;
using testing::read_text;
using testing::run_program;
using testing::training_fixture;
using testing::training_text;
using testing::Words;

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
  "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_ctx": 64, "vocab_size": 300,
  "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})";

class RowLengths : public testing::Training {
 protected:
  /// Makes a model of 64 positions: learned ones, or rotary ones.
  std::string make_model(const std::string& name) const {
    const auto text = write("text", training_text());
    Words words{"init", "--text", text, "--output", path(name)};
    if (name == "gpt2") {
      words.insert(words.end(), {"--config", write("gpt2.json", kGpt2)});
    }
    const auto made = run_program(words);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    if (name != "gpt2") {
      Json config = read_json(path(name) + "/config.json");
      config["max_position_embeddings"] = 64;
      write_json(path(name) + "/config.json", config);
    }
    return path(name);
  }

  /// Rows of text, of 1, 2, … words.
  std::string rows(int count) const {
    std::string text, lines;
    for (int i = 1; i <= count; ++i) {
      text += "fox ";
      lines += "{\"text\": \"" + text + "\"}\n";
    }
    return write("rows.jsonl", lines);
  }

  testing::ProgramResult sft_of(const std::string& model, const Words& more = {}) const {
    Words words{"--model", model, "--data", path("rows.jsonl"), "--overwrite_output_dir"};
    words.insert(words.end(), more.begin(), more.end());
    return train("sft", words);
  }
};

TEST_F(RowLengths, BeyondLearnedPositionsAreRefusedAtTheStart) {
  const auto gpt2 = make_model("gpt2");
  rows(90);
  const auto refused = sft_of(gpt2);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "--data " + path("rows.jsonl") + ": the longest row has"))
      << refused.err;
  EXPECT_TRUE(contains(refused.err,
                       "--model " + gpt2 +
                           " has 64 positions, which are learned and cannot be exceeded. Give "
                           "--max_length 64"))
      << refused.err;
  EXPECT_FALSE(contains(refused.err, "parameters")) << "the weights were read\n" << refused.err;
  EXPECT_FALSE(fs::exists(path("out")));
  const auto whole = sft_of(gpt2, {"--max_length", "64"});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  const auto padded = sft_of(gpt2, {"--max_length", "64", "--pad_to_multiple_of", "100"});
  EXPECT_TRUE(contains(padded.err, "64 tokens, padded to 100")) << padded.err;
  const auto allowed = sft_of(gpt2, {"--max_length", "64", "--allow_untrained_positions"});
  EXPECT_TRUE(contains(allowed.err, "--allow_untrained_positions has no effect")) << allowed.err;
}

TEST_F(RowLengths, OfJoinedDocumentsCountOneByOne) {
  const auto gpt2 = make_model("gpt2");
  rows(60);
  for (const Words& words : {Words{"--padding_free"}, Words{"--packing"}}) {
    Words all{"--max_length", "64"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = sft_of(gpt2, all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_F(RowLengths, BeyondTrainedPositionsNeedAWord) {
  const auto llama = make_model("llama");
  rows(90);
  const auto refused = sft_of(llama);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err,
                       "--model " + llama +
                           " was trained with 64 positions. Give --allow_untrained_positions to "
                           "train beyond them, or --max_length 64"))
      << refused.err;
  const auto allowed = sft_of(llama, {"--allow_untrained_positions"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  EXPECT_TRUE(contains(allowed.err, "warning: --data ")) << allowed.err;
  EXPECT_EQ(sft_of(llama, {"--max_length", "64"}).exit_code, 0);
  const auto wrapped =
      sft_of(llama, {"--max_length", "65", "--packing", "--packing_strategy", "wrapped"});
  EXPECT_TRUE(contains(wrapped.err, "the longest row has 65 tokens")) << wrapped.err;
  rows(3);
  EXPECT_EQ(sft_of(llama).exit_code, 0) << "rows that fit need no smaller --max_length";
}

TEST_F(RowLengths, AreThoseOfTheTeacherToo) {
  const auto llama = make_model("llama");
  const auto gpt2 = make_model("gpt2");
  rows(90);
  const auto result = train("kd",
                            {"--model",
                             llama,
                             "--teacher_model",
                             gpt2,
                             "--data",
                             path("rows.jsonl"),
                             "--allow_untrained_positions"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "--teacher_model " + gpt2 + " has 64 learned positions"))
      << result.err;
}

TEST_F(RowLengths, OfPromptsAndCompletionsMayGoBeyondToo) {
  const auto llama = make_model("llama");
  const auto data = write("prompts.jsonl", "{\"prompt\": \"One and one is\"}\n");
  Words words{"grpo",
              "--model",
              llama,
              "--data",
              data,
              "--reward_function",
              "regex:pattern=[aeiou]",
              "--max_completion_length",
              "80",
              "--max_steps",
              "1",
              "--device",
              "cpu",
              "--output_dir",
              path("out")};
  const auto refused = run_program(words);
  EXPECT_TRUE(contains(refused.err, "Give --allow_untrained_positions and --max_prompt_length"))
      << refused.err;
  words.insert(words.end(), {"--allow_untrained_positions", "--max_prompt_length", "32"});
  const auto result = run_program(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(RowLengths, ThatAreTruncatedAreCountedWithTheLengthThatKeepsThem) {
  const auto policy = training_fixture("models/policy");
  const std::vector<std::pair<std::string, Words>> objectives{
      {"sft", {"--model", policy, "--data", training_fixture("data/sft_text.jsonl")}},
      {"dpo", {"--model", policy, "--data", training_fixture("data/pairs.jsonl")}},
      {"kto", {"--model", policy, "--data", training_fixture("data/unpaired.jsonl")}},
      {"prm",
       {"--model",
        training_fixture("models/steps"),
        "--data",
        training_fixture("data/steps.jsonl")}}};
  const std::regex sentence(
      R"((\d+) of (\d+) examples are truncated at --max_length \d+: ([\d.]+) % of all tokens are lost; --max_length (\d+) would keep 99 % of examples whole)");
  for (const auto& [objective, words] : objectives) {
    Words all = words;
    // A row of prm needs room for its first step.
    const char* const limit = objective == "prm" ? "40" : "24";
    all.insert(all.end(), {"--overwrite_output_dir", "--max_length", limit});
    const auto result = train(objective, all);
    ASSERT_EQ(result.exit_code, 0) << objective << "\n" << result.err;
    std::smatch found;
    ASSERT_TRUE(std::regex_search(result.err, found, sentence)) << objective << "\n" << result.err;
    EXPECT_LE(std::stoi(found[1]), std::stoi(found[2]));
    EXPECT_GT(std::stod(found[3]), 0);
    EXPECT_TRUE(contains(read_text(path("out/report.html")), found[1].str() + " of ")) << objective;
    if (objective == "sft") {
      const auto cached = train(objective, all);
      EXPECT_TRUE(contains(cached.err, found[0])) << cached.err;
    }
    all.back() = found[4];
    const auto longer = train(objective, all);
    EXPECT_EQ(longer.exit_code, 0) << longer.err;
    EXPECT_FALSE(contains(longer.err, "truncated")) << objective << "\n" << longer.err;
  }
}

TEST_F(RowLengths, ThatAreTruncatedAtTwoTokensAreNoSilence) {
  const auto result = sft(training_fixture("data/sft_text.jsonl"), {"--max_length", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "26 of 26 examples are truncated at --max_length 2: 9"))
      << result.err;
}

TEST_F(RowLengths, ThatPackingTruncatesOrRmDropsAreCounted) {
  const auto packed =
      sft(training_fixture("data/sft_text.jsonl"), {"--max_length", "24", "--packing"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_TRUE(contains(packed.err, "examples are truncated at --max_length 24")) << packed.err;
  const auto split = sft(training_fixture("data/sft_text.jsonl"),
                         {"--max_length",
                          "24",
                          "--packing",
                          "--packing_strategy",
                          "bfd_split",
                          "--overwrite_output_dir"});
  ASSERT_EQ(split.exit_code, 0) << split.err;
  EXPECT_FALSE(contains(split.err, "truncated")) << split.err;
  const auto dropped = train("rm",
                             {"--model",
                              training_fixture("models/score"),
                              "--data",
                              training_fixture("data/reward.jsonl"),
                              "--max_length",
                              "40",
                              "--overwrite_output_dir"});
  EXPECT_TRUE(contains(dropped.err, "examples longer than --max_length 40 are dropped; "))
      << dropped.err;
}

}  // namespace
}  // namespace reprise
