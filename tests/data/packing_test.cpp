// Packed rows: the same as TRL's, and made of the right tokens.
#include "data/dataset/packing_plan.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/data/dataset.h>
#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Examples in memory.
class Examples final : public Dataset {
 public:
  explicit Examples(std::vector<Example> examples) : examples_(std::move(examples)) {}

  int64_t size() const override { return static_cast<int64_t>(examples_.size()); }
  Example at(int64_t index) const override { return examples_.at(static_cast<size_t>(index)); }
  int64_t length(int64_t index) const override {
    return static_cast<int64_t>(at(index).sequences.at(0).ids.size());
  }
  std::string location_name(const RowLocation& location) const override {
    return "row " + std::to_string(location.line);
  }

 private:
  std::vector<Example> examples_;
};

/// Examples of these lengths whose tokens are numbered through, with labels of their negatives;
/// the first two tokens of each are its prompt.
std::shared_ptr<const Dataset> numbered_examples(const std::vector<int64_t>& lengths) {
  std::vector<Example> examples;
  int64_t token = 0;
  for (const int64_t length : lengths) {
    Example example;
    example.location.line = static_cast<int64_t>(examples.size()) + 1;
    TokenSequence& sequence = example.sequences.emplace_back();
    sequence.prompt = 2;
    for (int64_t i = 0; i < length; ++i, ++token) {
      sequence.ids.push_back(token);
      sequence.labels.push_back(-token);
      sequence.soft_labels.push_back(static_cast<float>(token));
    }
    examples.push_back(std::move(example));
  }
  return std::make_shared<Examples>(std::move(examples));
}

/// As the fixture has it: [first token, tokens] of each sequence. Checks on the way that these are
/// consecutive and that labels came along.
Json runs_of(const Example& example) {
  Json runs = Json::array();
  for (const TokenSequence& sequence : example.sequences) {
    const int64_t first = sequence.ids.at(0);
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      EXPECT_EQ(sequence.ids[i], first + static_cast<int64_t>(i));
      EXPECT_EQ(sequence.labels.at(i), -sequence.ids[i]);
      EXPECT_EQ(sequence.soft_labels.at(i), static_cast<float>(sequence.ids[i]));
    }
    runs.push_back({first, sequence.ids.size()});
  }
  return runs;
}

class PackingParity : public ::testing::TestWithParam<std::pair<std::string, Packing>> {};

TEST_P(PackingParity, MakesTheRowsOfTrl) {
  const auto& [name, packing] = GetParam();
  const Json expected = read_json(fixtures() / "data/packing.json");
  const auto lengths = expected["lengths"].get<std::vector<int64_t>>();
  ASSERT_EQ(lengths.size(), 2500u);
  const auto packed = pack(numbered_examples(lengths), packing, expected["length"]);
  ASSERT_EQ(packed->size(), static_cast<int64_t>(expected[name].size()));
  for (int64_t i = 0; i < packed->size(); ++i) {
    ASSERT_EQ(runs_of(packed->at(i)), expected[name][static_cast<size_t>(i)]) << "row " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies,
                         PackingParity,
                         ::testing::Values(std::pair{"bfd", Packing::BestFit},
                                           std::pair{"bfd_split", Packing::BestFitSplit},
                                           std::pair{"wrapped", Packing::Wrapped}),
                         [](const auto& test) { return test.param.first; });

TEST(Packing, NeverPutsMoreThanTheLengthInARow) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 3000; ++i) {
    lengths.push_back(i * i % 37);
  }
  for (const Packing packing : {Packing::BestFit, Packing::BestFitSplit, Packing::Wrapped}) {
    for (const int64_t length : {1, 7, 16, 100}) {
      const auto packed = pack(numbered_examples(lengths), packing, length);
      for (int64_t i = 0; i < packed->size(); ++i) {
        ASSERT_LE(packed->length(i), length);
        ASSERT_GT(packed->length(i), 0);
      }
    }
  }
}

TEST(Packing, KeepsEveryTokenOnceUnlessItTruncates) {
  const std::vector<int64_t> lengths = {3, 20, 0, 8, 1};
  for (const auto& [packing, kept] : {std::pair{Packing::BestFit, 3 + 8 + 8 + 1},
                                      {Packing::BestFitSplit, 32},
                                      {Packing::Wrapped, 32}}) {
    const auto plan = data::plan_packing(lengths, packing, 8);
    int64_t tokens = 0;
    for (const auto& piece : plan.pieces) {
      tokens += piece.size();
    }
    EXPECT_EQ(tokens, kept);
  }
}

TEST(Packing, CarriesPromptAndPlaceOfItsDocuments) {
  const auto split = pack(numbered_examples({5, 3, 1}), Packing::BestFitSplit, 4);
  // 5 tokens are 4 and 1; the row of 3 is filled up with the rest of the first.
  ASSERT_EQ(split->size(), 3);
  EXPECT_EQ(split->at(0).sequences.at(0).prompt, 2);
  EXPECT_EQ(split->at(1).sequences.at(0).prompt, 2);
  EXPECT_EQ(split->at(1).sequences.at(1).ids, std::vector<int64_t>{4});
  EXPECT_EQ(split->at(1).sequences.at(1).prompt, 0) << "its prompt is in the other piece";
  EXPECT_EQ(split->at(2).sequences.at(0).prompt, 1) << "a prompt is no longer than its document";
  EXPECT_EQ(split->location_name(split->at(1).location), "row 2");
}

TEST(Packing, WrapsToOneSequence) {
  const auto wrapped = pack(numbered_examples({5, 3, 1}), Packing::Wrapped, 4);
  ASSERT_EQ(wrapped->size(), 3);
  EXPECT_EQ(wrapped->at(1).sequences.size(), 1u);
  EXPECT_EQ(wrapped->at(1).sequences[0].ids, (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(wrapped->length(2), 1);
}

TEST(Packing, RefusesPairs) {
  Example pair;
  pair.location.line = 7;
  pair.sequences.resize(2);
  pair.sequences[0] = {.ids = {1}, .labels = {1}, .soft_labels = {}, .prompt = 0};
  pair.sequences[1] = pair.sequences[0];
  const auto examples = std::make_shared<Examples>(std::vector<Example>{pair});
  expect_error([&] { pack(examples, Packing::BestFit, 8); },
               "row 7: only examples of one sequence can be packed, found 2");
}

TEST(Packing, RefusesWhatCannotBePacked) {
  expect_error([] { pack(nullptr, Packing::BestFit, 8); }, "expected a dataset to pack");
  expect_error([] { pack(numbered_examples({3}), Packing::BestFit, 0); },
               "expected packed rows of 1 to");
  expect_error([] { pack(numbered_examples({0, 0}), Packing::Wrapped, 8); }, "nothing to pack");
  const auto packed = pack(numbered_examples({3}), Packing::BestFit, 8);
  expect_error([&] { packed->at(1); }, "expected a packed row in [0, 1), found 1");
}

}  // namespace
}  // namespace reprise::testing
