// open_dataset() with real tokenizers: what RowTokenizer says is what a dataset has.
#include "data/row_checks.h"
#include "support/temporary_folder.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

constexpr const char* kPair = R"({"prompt": "A B", "chosen": " C", "rejected": " D E"})";
constexpr const char* kOtherPair = R"({"prompt": "F", "chosen": " G H", "rejected": " I"})";

class OpenRealDataset : public ::testing::Test {
 protected:
  OpenedDataset open(Objective objective, const std::string& text, int64_t max_length = 64) const {
    RowOptions options;
    options.objective = objective;
    options.max_length = max_length;
    write_file(folder_ / "rows.jsonl", text);
    return open_dataset(tokenizer_for(options),
                        {.files = {{folder_ / "rows.jsonl"}},
                         .cache = folder_ / "caches",
                         .tokenizer_key = "qwen2"});
  }

  TemporaryFolder folder_;
};

TEST_F(OpenRealDataset, HasTheExamplesOfTheRowTokenizer) {
  const auto [dataset, report] =
      open(Objective::Dpo, std::string(kPair) + "\n" + kOtherPair + "\n");
  const RowTokenizer tokenizer = tokenizer_for(Objective::Dpo);
  ASSERT_EQ(dataset->size(), 2);
  expect_same({.examples = {dataset->at(0)}}, tokenizer.tokenize(Json::parse(kPair)));
  expect_same({.examples = {dataset->at(1)}}, tokenizer.tokenize(Json::parse(kOtherPair)));
  EXPECT_EQ(report.format, tokenizer.describe(Json::parse(kPair)));
}

TEST_F(OpenRealDataset, PutsRejectedCompletionsAfterChosenOnesForKto) {
  const auto dataset = open(Objective::Kto, std::string(kPair) + "\n" + kOtherPair + "\n").dataset;
  std::vector<std::pair<int64_t, bool>> found;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    found.emplace_back(dataset->at(i).location.line, dataset->at(i).desirable);
  }
  EXPECT_EQ(found,
            (std::vector<std::pair<int64_t, bool>>{{1, true}, {2, true}, {1, false}, {2, false}}));
}

TEST_F(OpenRealDataset, IsTokenisedAgainForOtherRowOptions) {
  open(Objective::Dpo, kPair);
  EXPECT_TRUE(open(Objective::Dpo, kPair).report.from_cache);
  EXPECT_FALSE(open(Objective::Dpo, kPair, 32).report.from_cache);
  EXPECT_FALSE(open(Objective::Rm, kPair).report.from_cache);
}

TEST_F(OpenRealDataset, NamesFileAndLineOfARowThatTheObjectiveDoesNotTake) {
  expect_error([&] { open(Objective::Dpo, std::string(kPair) + "\n{\"text\": \"A\"}\n"); },
               (folder_ / "rows.jsonl").string() + ":2: ");
}

TEST_F(OpenRealDataset, NeedsToKnowTheTokenizer) {
  write_file(folder_ / "rows.jsonl", kPair);
  expect_error(
      [&] {
        open_dataset(tokenizer_for(Objective::Dpo),
                     {.files = {{folder_ / "rows.jsonl"}}, .cache = folder_ / "caches"});
      },
      "expected a tokenizer_key");
}

}  // namespace
}  // namespace reprise::testing
