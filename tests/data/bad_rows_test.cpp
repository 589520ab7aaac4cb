// Bad rows, invalid UTF-8 among them, are skipped and counted by every objective alike.
#include "data/row_checks.h"

#include <reprise/data/dataset.h>
#include <reprise/data/prompts.h>
#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

const std::map<Objective, std::string>& good_rows() {
  static const std::map<Objective, std::string> rows = {
      {Objective::Sft, R"({"text": "one two three"})"},
      {Objective::Kd, R"({"text": "one two three"})"},
      {Objective::Rm, R"({"prompt": "one", "chosen": " two", "rejected": " three"})"},
      {Objective::Dpo, R"({"prompt": "one", "chosen": " two", "rejected": " three"})"},
      {Objective::Kto, R"({"prompt": "one", "completion": " two", "label": true})"},
      {Objective::Prm, R"({"prompt": "one", "completions": ["two"], "labels": [true]})"},
      {Objective::Ppo, R"({"prompt": "one"})"},
      {Objective::Grpo, R"({"prompt": "one"})"}};
  return rows;
}

/// Not UTF-8 in a value, in a key and cut off in a character; not JSON; no row; a zero byte.
const std::vector<std::string>& bad_rows() {
  static const std::vector<std::string> rows = {"{\"text\": \"a\xff\", \"prompt\": \"b\xc3\"}",
                                                "{\"te\xfext\": 1}",
                                                "{\"text\": \"\xe6\xbc",
                                                "{\"text\": ",
                                                "[1, \"\\ud800\"]",
                                                std::string("{\0}", 3),
                                                "{\"unrelated\": 1}"};
  return rows;
}

class BadRows : public ::testing::TestWithParam<Objective> {
 protected:
  BadRows() {
    std::string text = good_rows().at(GetParam()) + "\n";
    for (const std::string& row : bad_rows()) {
      text += row + "\n";
    }
    write_file(file, text + good_rows().at(GetParam()) + "\n");
  }

  /// The number of examples, and the report.
  std::pair<int64_t, DatasetReport> open(bool skip) const {
    if (GetParam() == Objective::Ppo || GetParam() == Objective::Grpo) {
      PromptOptions options;
      options.skip_bad_rows = skip;
      const auto prompts = open_prompts({{file}}, row_tokenizer("qwen2"), options);
      return {prompts->size(), prompts->report()};
    }
    const auto opened = open_dataset(tokenizer_for(GetParam()),
                                     {.files = {{file}},
                                      .cache = folder / "caches",
                                      .skip_bad_rows = skip,
                                      .tokenizer_key = "qwen2"});
    return {opened.dataset->size(), opened.report};
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "a.jsonl";
};

TEST_P(BadRows, AreSkippedAndCounted) {
  for (int i = 0; i < 2; ++i) {  // the second time from the cache, where there is one
    const auto [size, report] = open(true);
    EXPECT_EQ(size, 2);
    EXPECT_EQ(report.rows, static_cast<int64_t>(bad_rows().size()) + 2);
    EXPECT_EQ(report.bad_row_count, static_cast<int64_t>(bad_rows().size()));
    ASSERT_EQ(report.bad_rows.size(), bad_rows().size());
    EXPECT_TRUE(report.bad_rows[0].starts_with(file.string() + ":2: ")) << report.bad_rows[0];
    EXPECT_NE(report.bad_rows[0].find("ill-formed UTF-8"), std::string::npos) << report.bad_rows[0];
    EXPECT_NO_THROW(Json(report.bad_rows).dump()) << "not UTF-8";
  }
}

TEST_P(BadRows, AreAnErrorWithFileAndLineUnlessSkipped) {
  expect_error([&] { open(false); }, file.string() + ":2: ");
}

std::vector<Objective> objectives() {
  std::vector<Objective> all;
  for (const auto& [objective, row] : good_rows()) {
    all.push_back(objective);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, BadRows, ::testing::ValuesIn(objectives()), [](const auto& info) {
  return to_string(info.param);
});

}  // namespace
}  // namespace reprise::testing
