// IdRows of every convention, tokenised and put together to batches exactly as TRL does, with a
// tokenizer that adds BOS and one that does not, whole and cut.
#include <reprise/data/batch.h>
#include <reprise/data/rows.h>

#include "data/row_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using testing::RowCase;

constexpr size_t kBatch = 3;  // of generate_rows.py

/// All examples of a case, in the order in which TRL's dataset has them.
std::vector<Example> examples_of(const RowCase& row_case) {
  const RowTokenizer tokenizer = row_case.tokenizer();
  std::vector<Example> all;
  for (const Json& item : row_case.json["rows"]) {
    for (Example& example : tokenizer.tokenize(item["row"]).examples) {
      all.push_back(std::move(example));
    }
  }
  const bool is_unpaired_here = tokenizer.options().objective == Objective::Kto &&
                                row_case.json["rows"][0]["row"].contains("chosen");
  if (is_unpaired_here) {  // TRL puts all chosen answers before all rejected ones
    std::stable_partition(
        all.begin(), all.end(), [](const Example& example) { return example.desirable; });
  }
  return all;
}

CollateOptions collate_options(const RowCase& row_case) {
  CollateOptions options{.pad_id = row_case.json["pad_id"].get<int64_t>()};
  if (row_case.options().objective == Objective::Kto) {
    options.mismatch = true;
    options.max_length = row_case.options().max_length;
  }
  return options;
}

/// Calls `check` with each batch that the fixture has under `key`, and ours.
template <class Check>
void for_each_batch(const char* key, bool padding_free, const Check& check) {
  size_t batches = 0;
  for (const RowCase& row_case : testing::row_cases()) {
    if (!row_case.json.contains(key)) {
      continue;
    }
    SCOPED_TRACE(row_case.name);
    const std::vector<Example> all = examples_of(row_case);
    CollateOptions options = collate_options(row_case);
    options.padding_free = padding_free;
    size_t next = 0;
    for (const Json& expected : row_case.json[key]) {
      const size_t count = std::min(kBatch, all.size() - next);
      check(collate(std::span(all).subspan(next, count), options), expected);
      next += count;
      ++batches;
    }
    EXPECT_EQ(next, all.size());
  }
  EXPECT_GT(batches, 20U);
}

using IdRows = std::vector<std::vector<int64_t>>;

IdRows values(const at::Tensor& tensor) {
  IdRows rows;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    const int64_t* row = tensor.const_data_ptr<int64_t>() + i * tensor.size(1);
    rows.emplace_back(row, row + tensor.size(1));
  }
  return rows;
}

/// A batch of TRL's, whose keys begin with `prefix`.
void expect_equal(const TokenBatch& batch, const Json& expected, const std::string& prefix) {
  EXPECT_EQ(values(batch.input_ids), expected[prefix + "input_ids"].get<IdRows>());
  EXPECT_EQ(values(batch.attention_mask), expected[prefix + "attention_mask"].get<IdRows>());
  if (expected.contains(prefix + "completion_mask")) {
    EXPECT_EQ(values(batch.labels.ne(kIgnoredLabel).to(at::kLong)),
              expected[prefix + "completion_mask"].get<IdRows>());
  }
  if (expected.contains(prefix + "labels")) {
    EXPECT_EQ(values(batch.labels), expected[prefix + "labels"].get<IdRows>());
  }
  EXPECT_EQ(batch.tokens, batch.attention_mask.sum().item<int64_t>());
  EXPECT_FALSE(batch.document_ids.defined());
}

void expect_equal(const TokenSequence& found, const Json& expected, const RowOptions& options) {
  // kto leaves the cut to collate().
  const size_t length = options.objective == Objective::Kto && options.max_length > 0
                            ? std::min(found.ids.size(), static_cast<size_t>(options.max_length))
                            : found.ids.size();
  const auto cut = [&](const auto& all) { return TokenIds(all.begin(), all.begin() + length); };
  EXPECT_EQ(cut(found.ids), expected["ids"].get<TokenIds>());
  EXPECT_EQ(cut(found.labels), expected["labels"].get<TokenIds>());
  if (expected.contains("soft_labels")) {
    EXPECT_EQ(found.soft_labels, expected["soft_labels"].get<std::vector<float>>());
  } else {
    EXPECT_TRUE(found.soft_labels.empty());
  }
}

void expect_equal(const TokenizedRow& row, const Json& expected, const RowOptions& options) {
  ASSERT_EQ(row.examples.size(), expected.size());
  EXPECT_EQ(row.dropped.empty(), !expected.empty());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Example& example = row.examples[i];
    ASSERT_EQ(example.sequences.size(), expected[i]["sequences"].size());
    for (size_t j = 0; j < example.sequences.size(); ++j) {
      expect_equal(example.sequences[j], expected[i]["sequences"][j], options);
    }
    EXPECT_EQ(example.desirable, expected[i].value("desirable", true));
    EXPECT_EQ(example.margin, expected[i].value("margin", 0.0F));
  }
}

TEST(RowParity, GivesTheIdsAndLabelsOfTheReference) {
  size_t rows = 0;
  for (const RowCase& row_case : testing::row_cases()) {
    const RowTokenizer tokenizer = row_case.tokenizer();
    for (const Json& item : row_case.json["rows"]) {
      SCOPED_TRACE(row_case.name + ": " + item["row"].dump());
      expect_equal(tokenizer.tokenize(item["row"]), item["examples"], tokenizer.options());
      ++rows;
    }
  }
  EXPECT_GT(rows, 400U);
}

TEST(BatchParity, CollatesTheBatchesOfTheReference) {
  for_each_batch("batches", false, [](const Batch& batch, const Json& expected) {
    expect_equal(batch.main, expected, "");
    EXPECT_EQ(expected.contains("KL_input_ids"), batch.mismatched.input_ids.defined());
    if (expected.contains("KL_input_ids")) {
      expect_equal(batch.mismatched, expected, "KL_");
    }
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (expected.contains("label")) {
        EXPECT_EQ(batch.desirable[at].item<bool>(), expected["label"][i].get<bool>());
      }
      if (expected.contains("margin")) {
        EXPECT_EQ(batch.margin[at].item<float>(), expected["margin"][i].get<float>());
      }
    }
  });
}

TEST(BatchParity, CollatesThePaddingFreeBatchesOfTheReference) {
  for_each_batch("flat_batches", true, [](const Batch& batch, const Json& expected) {
    EXPECT_EQ(values(batch.main.input_ids), expected["input_ids"].get<IdRows>());
    EXPECT_EQ(values(batch.main.labels), expected["labels"].get<IdRows>());
    EXPECT_EQ(values(batch.main.position_ids), expected["position_ids"].get<IdRows>());
    EXPECT_EQ(values(batch.main.document_ids), expected["seq_idx"].get<IdRows>());
  });
}

}  // namespace
}  // namespace reprise
