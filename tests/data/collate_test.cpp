// Batches beyond those of TRL's collators: packed rows, padding on the left, and what is refused.
// row_parity_test.cpp compares the usual ones with TRL.
#include <reprise/data/batch.h>

#include "support/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace reprise {
namespace {

using testing::expect_error;

constexpr int64_t kPad = 99;
constexpr int64_t kNone = kIgnoredLabel;

/// Ids first, first + 1, ..., of which the first `prompt` are not learnt.
TokenSequence counted(int64_t first, size_t length, int64_t prompt = 0) {
  TokenSequence sequence;
  for (size_t i = 0; i < length; ++i) {
    sequence.ids.push_back(first + static_cast<int64_t>(i));
  }
  sequence.labels = sequence.ids;
  std::fill_n(sequence.labels.begin(), prompt, kNone);
  sequence.prompt = prompt;
  return sequence;
}

Example example_of(std::vector<TokenSequence> sequences) {
  Example example;
  example.sequences = std::move(sequences);
  return example;
}

at::Tensor rows(const std::vector<std::vector<int64_t>>& values) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(values.size());
  for (const auto& row : values) {
    tensors.push_back(at::tensor(row, at::kLong));
  }
  return at::stack(tensors);
}

void expect_rows(const at::Tensor& found, const std::vector<std::vector<int64_t>>& expected) {
  EXPECT_TRUE(at::equal(found, rows(expected))) << found;
}

void expect_runs(const TokenBatch& batch, const std::vector<int32_t>& starts, int64_t longest) {
  EXPECT_TRUE(at::equal(batch.document_starts, at::tensor(starts, at::kInt)))
      << batch.document_starts;
  EXPECT_EQ(batch.longest_document, longest);
}

TEST(Collate, PacksTheDocumentsOfAnExampleIntoItsRow) {
  const std::vector<Example> examples = {example_of({counted(10, 2), counted(20, 3)}),
                                         example_of({counted(30, 3)})};
  const TokenBatch batch = collate(examples, {.pad_id = kPad, .packed = true}).main;
  expect_rows(batch.input_ids, {{10, 11, 20, 21, 22}, {30, 31, 32, kPad, kPad}});
  expect_rows(batch.labels, {{kNone, 11, kNone, 21, 22}, {kNone, 31, 32, kNone, kNone}});
  expect_rows(batch.position_ids, {{0, 1, 0, 1, 2}, {0, 1, 2, 0, 0}});
  expect_rows(batch.document_ids, {{0, 0, 1, 1, 1}, {0, 0, 0, 1, 1}});
  expect_rows(batch.attention_mask, {{1, 1, 1, 1, 1}, {1, 1, 1, 0, 0}});
  EXPECT_EQ(batch.tokens, 8);
  expect_runs(batch, {0, 2, 5, 8, 10}, 3);
}

TEST(Collate, FlattensPackedRowsToOneIfPaddingFree) {
  const std::vector<Example> examples = {example_of({counted(10, 2), counted(20, 1)}),
                                         example_of({counted(30, 2)})};
  const TokenBatch batch =
      collate(examples,
              {.pad_id = kPad, .pad_to_multiple_of = 4, .packed = true, .padding_free = true})
          .main;
  expect_rows(batch.input_ids, {{10, 11, 20, 30, 31, kPad, kPad, kPad}});
  expect_rows(batch.labels, {{kNone, 11, kNone, kNone, 31, kNone, kNone, kNone}});
  expect_rows(batch.document_ids, {{0, 0, 1, 2, 2, 3, 3, 3}});
  expect_rows(batch.attention_mask, {{1, 1, 1, 1, 1, 0, 0, 0}});
  expect_runs(batch, {0, 2, 3, 5, 8}, 3);  // the padding is the longest
}

TEST(Collate, CountsTheRunsOfRowsThatAreNotPacked) {
  const std::vector<Example> examples = {example_of({counted(10, 3)}),
                                         example_of({counted(20, 1)})};
  expect_runs(collate(examples, {.pad_id = kPad}).main, {0, 3, 4, 6}, 3);
  expect_runs(collate(examples, {.pad_id = kPad, .pad_left = true}).main, {0, 3, 5, 6}, 3);
  expect_runs(collate(examples, {.pad_id = kPad, .padding_free = true}).main, {0, 3, 4}, 3);
  expect_runs(collate(std::vector(2, examples[0]), {.pad_id = kPad}).main, {0, 3, 6}, 3);
  expect_runs(collate(std::vector(2, examples[1]), {.pad_id = kPad, .pad_to_multiple_of = 4}).main,
              {0, 1, 4, 5, 8},
              3);
}

TEST(Collate, PadsOnTheLeftIfAsked) {
  const std::vector<Example> examples = {example_of({counted(10, 3)}),
                                         example_of({counted(20, 1)})};
  const TokenBatch batch = collate(examples, {.pad_id = kPad, .pad_left = true}).main;
  expect_rows(batch.input_ids, {{10, 11, 12}, {kPad, kPad, 20}});
  expect_rows(batch.labels, {{10, 11, 12}, {kNone, kNone, 20}});
  expect_rows(batch.attention_mask, {{1, 1, 1}, {0, 0, 1}});
}

TEST(Collate, NeverTakesATokenForPaddingBecauseOfItsId) {
  const std::vector<Example> examples = {example_of({counted(kPad, 2)}),
                                         example_of({counted(5, 3)})};
  const TokenBatch batch = collate(examples, {.pad_id = kPad}).main;
  expect_rows(batch.labels, {{kPad, kPad + 1, kNone}, {5, 6, 7}});
  expect_rows(batch.attention_mask, {{1, 1, 0}, {1, 1, 1}});
}

TEST(Collate, PutsChosenRowsBeforeRejectedOnes) {
  const std::vector<Example> examples = {example_of({counted(10, 2), counted(20, 1)}),
                                         example_of({counted(30, 1), counted(40, 2)})};
  const TokenBatch batch = collate(examples, {.pad_id = kPad}).main;
  expect_rows(batch.input_ids, {{10, 11}, {30, kPad}, {20, kPad}, {40, 41}});
}

TEST(Collate, GivesEachPromptTheCompletionBeforeItAndCutsBoth) {
  const std::vector<Example> examples = {example_of({counted(10, 5, 1)}),
                                         example_of({counted(20, 4, 3)}),
                                         example_of({counted(30, 3, 2)})};
  const Batch batch = collate(examples, {.pad_id = kPad, .mismatch = true, .max_length = 4});
  expect_rows(batch.main.input_ids, {{10, 11, 12, 13}, {20, 21, 22, 23}, {30, 31, 32, kPad}});
  expect_rows(batch.mismatched.input_ids,
              {{10, 32, kPad, kPad}, {20, 21, 22, 11}, {30, 31, 23, kPad}});
  expect_rows(batch.mismatched.labels,
              {{kNone, 32, kNone, kNone}, {kNone, kNone, kNone, 11}, {kNone, kNone, 23, kNone}});
}

TEST(Collate, GivesEachPromptTheCompletionBehindItIfAsked) {
  const std::vector<Example> examples = {example_of({counted(10, 3, 1)}),
                                         example_of({counted(20, 2, 1)}),
                                         example_of({counted(30, 4, 2)})};
  const TokenBatch batch =
      collate(examples, {.pad_id = kPad, .mismatch = true, .mismatch_with_next = true}).mismatched;
  expect_rows(batch.input_ids, {{10, 21, kPad, kPad}, {20, 32, 33, kPad}, {30, 31, 11, 12}});
  expect_rows(batch.labels,
              {{kNone, 21, kNone, kNone}, {kNone, 32, 33, kNone}, {kNone, kNone, 11, 12}});
}

TEST(Collate, CountsTheTargetsOfAllPositions) {
  const auto counted_in = [](const std::vector<Example>& examples, const CollateOptions& options) {
    return collate(examples, options).main;
  };
  // The first label of a row is nobody's target: no position precedes it.
  const std::vector<Example> padded = {example_of({counted(10, 4)}), example_of({counted(20, 2)})};
  EXPECT_EQ(counted_in(padded, {}).targets, (TargetSummary{4, 11, 21}));
  // With padding on its left a first token has one before it, and counts.
  EXPECT_EQ(counted_in(padded, {.pad_left = true}).targets, (TargetSummary{5, 11, 21}));
  const std::vector<Example> prompts = {example_of({counted(10, 5, 3)}),
                                        example_of({counted(20, 4, 4)})};
  EXPECT_EQ(counted_in(prompts, {}).targets, (TargetSummary{2, 13, 14}));
  const std::vector<Example> packed = {example_of({counted(10, 2), counted(20, 3)}),
                                       example_of({counted(30, 3)})};
  EXPECT_EQ(counted_in(packed, {.packed = true}).targets, (TargetSummary{5, 11, 32}));
  EXPECT_EQ(
      counted_in(packed, {.pad_to_multiple_of = 16, .packed = true, .padding_free = true}).targets,
      (TargetSummary{5, 11, 32}));
  EXPECT_EQ(counted_in({example_of({counted(10, 2, 2)})}, {}).targets, TargetSummary());
  for (const auto& batch : {counted_in(padded, {.pad_left = true}), counted_in(prompts, {})}) {
    EXPECT_EQ(batch.labels.slice(1, 1).ne(kNone).sum().item<int64_t>(), batch.targets->count);
  }
  const Batch both = collate(prompts, {.mismatch = true});
  EXPECT_EQ(both.mismatched.targets->count,
            both.mismatched.labels.slice(1, 1).ne(kNone).sum().item<int64_t>());
}

TEST(Collate, CarriesSoftLabelsAndPlaces) {
  TokenSequence soft = counted(10, 2, 1);
  soft.soft_labels = {0.0F, 0.25F};
  std::vector<Example> examples = {example_of({soft})};
  examples[0].location = {.file = 1, .line = 17};
  const Batch batch = collate(examples, {.pad_id = kPad, .pad_to_multiple_of = 3});
  EXPECT_TRUE(at::equal(batch.main.soft_labels, at::tensor({0.0F, 0.25F, 0.0F}).unsqueeze(0)));
  EXPECT_EQ(batch.rows.at(0).line, 17);
  examples.push_back(example_of({counted(20, 2)}));
  expect_error([&] { collate(examples, {}); }, "all or none");
}

TEST(Collate, RefusesExamplesOfDifferentShapes) {
  const Example one = example_of({counted(10, 2)});
  const Example two = example_of({counted(10, 2), counted(20, 2)});
  const Example three = example_of({counted(1, 1), counted(2, 1), counted(3, 1)});
  const auto collate_all = [](const std::vector<Example>& examples, CollateOptions options = {}) {
    collate(examples, options);
  };
  expect_error([&] { collate_all({}); }, "no examples");
  expect_error([&] { collate_all({one, two}); }, "all have one sequence, or all two");
  expect_error([&] { collate_all({three}); }, "CollateOptions::packed");
  expect_error([&] { collate_all({two}, {.mismatch = true}); }, "examples of one sequence");
  expect_error([&] { collate_all({one}, {.packed = true, .max_length = 3}); },
               "does not apply to them");
  expect_error([&] { collate_all({one}, {.pad_to_multiple_of = 0}); }, "must be positive");
}

TEST(Collate, RefusesSequencesThatContradictThemselves) {
  const auto expect_refused = [](TokenSequence sequence, const std::string& reason) {
    const std::vector<Example> examples = {example_of({std::move(sequence)})};
    expect_error([&] { collate(examples, {}); }, reason);
  };
  expect_refused({}, "has no tokens");
  TokenSequence sequence = counted(10, 2);
  sequence.labels.pop_back();
  expect_refused(sequence, "2 ids has 1 labels");
  sequence = counted(10, 2);
  sequence.prompt = 3;
  expect_refused(sequence, "a prompt of 3");
}

TEST(ToDevice, MovesEveryTensorAndLeavesUndefinedOnes) {
  const std::vector<Example> examples = {example_of({counted(10, 2, 1)})};
  const Batch batch = collate(examples, {.mismatch = true});
  const Batch moved = to_device(batch, at::kMeta);  // a device that every machine has
  EXPECT_TRUE(moved.main.input_ids.is_meta());
  EXPECT_TRUE(moved.main.attention_mask.is_meta());
  EXPECT_TRUE(moved.main.labels.is_meta());
  EXPECT_TRUE(moved.mismatched.labels.is_meta());
  EXPECT_TRUE(moved.margin.is_meta());
  EXPECT_TRUE(moved.desirable.is_meta());
  EXPECT_FALSE(moved.main.position_ids.defined());
  EXPECT_EQ(moved.main.tokens, 2);
  EXPECT_EQ(moved.main.targets, batch.main.targets);
  EXPECT_FALSE(batch.main.labels.is_meta());
}

}  // namespace
}  // namespace reprise
