// Files of prompts: rows and options that are refused, several files, and the temporary file in
// which rows wait.
#include "data/gzip_bytes.h"
#include "data/prompt_checks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace reprise::testing {
namespace {

using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

using PromptFiles = Prompts;

TEST_F(PromptFiles, BadRowsAreNamedByFileAndLine) {
  const std::string good = "{\"prompt\": \"a\"}\n";
  expect_refused(good + "{\"prompt\": 3}\n",
                 place(2) + ": \"prompt\": expected a string or a list");
  expect_refused(good + "{\"text\": \"a\"}\n", place(2) + ": not a row for online training");
  expect_refused(good + "{\"prompt\": \"a\n", place(2) + ": ");
  expect_refused(good + "[1]\n", place(2) + ": a row must be a JSON object");
  expect_refused(R"({"instruction": "a", "input": "b"})", "Its keys are: instruction, input");
  expect_refused(R"({"messages": "a"})", "\"messages\": expected a list of messages");
  expect_refused(R"({"prompt": []})", "\"prompt\" is an empty list");
  expect_refused(R"({"prompt": ""})", "the prompt has no tokens");
  EXPECT_EQ(first(R"({"prompt": ""})", {}, "llama3").ids, Ids{480});
  expect_refused(R"({"prompt": [{"role": "user", "content": "a"}], "tools": 3})",
                 "expected a list of tools");
}

TEST_F(PromptFiles, BadRowsAreSkippedAndCountedIfAsked) {
  const auto prompts = open("{\"prompt\": \"a\"}\n{\n{\"prompt\": 3}\n{\"prompt\": \"b\"}\n",
                            {.skip_bad_rows = true});
  EXPECT_EQ(texts(*prompts), (Texts{"a", "b"}));
  EXPECT_EQ(prompts->report().bad_row_count, 2);
  ASSERT_EQ(prompts->report().bad_rows.size(), 2U);
  EXPECT_EQ(prompts->report().bad_rows[1].find(place(3) + ": \"prompt\": expected"), 0U);
  expect_refused(
      "{\"prompt\": 3}\n", "no prompt is left; 1 rows; skipped 1", {.skip_bad_rows = true});
}

TEST_F(PromptFiles, OfMixedConventionsAreRefusedEvenIfBadRowsAreSkipped) {
  const std::string text = "{\"prompt\": \"a\"}\n";
  const PromptOptions skipping{.skip_bad_rows = true};
  expect_refused(text + kChatPrompt,
                 place(2) + ": mixed conventions: expected \"prompt, as text\" as in " + place(1),
                 skipping);
  expect_refused(text + "{\"input\": \"a\"}", "found \"input, as text\"", skipping);
  write_file(folder_ / "chats.jsonl", kChatPrompt);
  write_file(folder_ / "texts.jsonl", text);
  expect_error(
      [&] {
        open_prompts({{folder_ / "texts.jsonl"}, {folder_ / "chats.jsonl"}},
                     row_tokenizer("qwen2"));
      },
      "mixed conventions");
}

TEST_F(PromptFiles, NeedAFileWithRows) {
  expect_refused("", place(1) + ": the file has no rows");
  expect_refused("\n \n", "the file has no rows");
  expect_error([] { open_prompts({}, row_tokenizer("qwen2")); }, "at least one file");
  expect_error([&] { open_prompts({{folder_ / "none.jsonl"}}, row_tokenizer("qwen2")); },
               (folder_ / "none.jsonl").string());
}

TEST_F(PromptFiles, OptionsWithoutEffectOrSenseAreRefused) {
  const std::string row = "{\"prompt\": \"a\"}";
  expect_refused(row, "has no effect without", {.long_prompts = LongPrompts::KeepEnd});
  expect_refused(row, "max_prompt_length must be positive", {.max_prompt_length = -1});
  expect_refused(row, "expected max_samples above 0", {.max_samples = 0});
  expect_refused(row, "there is no key \"chosen\"", {.keys = {{"chosen", "a"}}});
  expect_refused(row, "has an empty name", {.keys = {{"prompt", ""}}});
  expect_refused(row, "{} once", {.input_template = "no hole"});
  expect_refused(row, "chat_template is for chats", {.chat_template = "{{ messages }}"});
  write_file(folder_ / "rows.jsonl", row);
  expect_error([&] { open_prompts({{folder_ / "rows.jsonl"}}, nullptr); }, "no tokenizer");
}

std::string numbered_prompts(const std::string& name, int64_t count) {
  std::string rows;
  for (int64_t i = 0; i < count; ++i) {
    rows += "{\"prompt\": \"" + name + std::to_string(i) + "\"}\n";
  }
  return rows;
}

TEST_F(PromptFiles, OfSeveralFilesFollowEachOtherUpToMaxSamples) {
  write_file(folder_ / "a.jsonl", numbered_prompts("a", 2));
  write_file(folder_ / "b.jsonl", numbered_prompts("b", 3));
  const std::vector<DataFile> files = {{folder_ / "a.jsonl"}, {folder_ / "b.jsonl"}};
  const auto all = open_prompts(files, row_tokenizer("qwen2"));
  EXPECT_EQ(texts(*all), (Texts{"a0", "a1", "b0", "b1", "b2"}));
  EXPECT_EQ(all->location_name(all->at(2).location), (folder_ / "b.jsonl").string() + ":1");
  const auto some = open_prompts(files, row_tokenizer("qwen2"), {.max_samples = 3});
  EXPECT_EQ(texts(*some), (Texts{"a0", "a1", "b0"}));
}

TEST_F(PromptFiles, OfWeightedFilesAreMixedAsOpenDatasetMixesThem) {
  write_file(folder_ / "a.jsonl", numbered_prompts("a", 30));
  write_file(folder_ / "b.jsonl", numbered_prompts("b", 30));
  const std::vector<DataFile> files = {{folder_ / "a.jsonl", 0.3}, {folder_ / "b.jsonl", 0.7}};
  const auto prompts = open_prompts(files, row_tokenizer("qwen2"), {.seed = 7});
  RowOptions rows{.objective = Objective::Sft, .keys = {{"text", "prompt"}}};
  const auto dataset =
      open_dataset(
          {row_tokenizer("qwen2"), rows},
          {.files = files, .cache = folder_ / "caches", .seed = 7, .tokenizer_key = "qwen2"})
          .dataset;
  ASSERT_EQ(prompts->size(), dataset->size());
  for (int64_t i = 0; i < prompts->size(); ++i) {
    EXPECT_EQ(prompts->location_name(prompts->at(i).location),
              dataset->location_name(dataset->at(i).location));
  }
  expect_error(
      [&] {
        open_prompts({{folder_ / "a.jsonl", 0.3}, {folder_ / "b.jsonl"}}, row_tokenizer("qwen2"));
      },
      "either all files have a weight, or none");
}

TEST_F(PromptFiles, OfGzipFilesAndArraysAreTheSame) {
  const Texts expected = {"a0", "a1", "a2"};
  EXPECT_EQ(texts(*open(numbered_prompts("a", 3))), expected);
  EXPECT_EQ(texts(*open(gzip_member(numbered_prompts("a", 3)))), expected);
  EXPECT_EQ(texts(*open(R"([{"prompt": "a0"}, {"prompt": "a1"}, {"prompt": "a2"}])")), expected);
}

TEST_F(PromptFiles, AreTheirRowsInAnyOrderAndFromSeveralThreads) {
  // More than the spill file's buffer and than a batch of rows.
  const int64_t count = 2500;
  std::string rows;
  for (int64_t i = 0; i < count; ++i) {
    rows += Json({{"prompt", std::to_string(i)}, {"pad", std::string(600, 'x')}}).dump() + "\n";
  }
  const auto prompts = open(rows);
  write_file(folder_ / "rows.jsonl", "changed");
  ASSERT_EQ(prompts->size(), count);
  std::vector<int64_t> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t index = (i * 997 + static_cast<int64_t>(thread) * 331) % count;
        wrong[thread] += prompts->at(index).text == std::to_string(index) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int64_t>(4, 0));
  expect_error([&] { prompts->at(count); }, "expected a prompt in [0, 2500), found 2500");
  expect_error([&] { prompts->at(-1); }, "found -1");
}

/// $TMPDIR as it was, after the test.
class TemporaryFilesIn {
 public:
  explicit TemporaryFilesIn(const std::filesystem::path& folder) {
    if (const char* before = std::getenv("TMPDIR")) {
      before_ = before;
    }
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  ~TemporaryFilesIn() {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }
  TemporaryFilesIn(const TemporaryFilesIn&) = delete;
  TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;

 private:
  std::string before_;
};

TEST_F(PromptFiles, LeaveNoTemporaryFile) {
  const TemporaryFolder temporary;
  const TemporaryFilesIn guard(temporary.path());
  const auto prompts = open(numbered_prompts("a", 3));
  EXPECT_TRUE(temporary.names().empty());
  EXPECT_EQ(prompts->at(2).text, "a2");
}

TEST_F(PromptFiles, SayWhichVariableNamesTheFolderIfThereIsNone) {
  const TemporaryFilesIn guard(folder_ / "none");
  expect_refused(numbered_prompts("a", 1), "TMPDIR");
}

}  // namespace
}  // namespace reprise::testing
