// What tests of rows share: tokenizers for an objective, rows in TRL's form, and comparisons.
#pragma once

#include <reprise/data/rows.h>

#include "data/row_cases.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace reprise::testing {

inline RowTokenizer tokenizer_for(RowOptions options, const std::string& tokenizer = "qwen2") {
  return {row_tokenizer(tokenizer), std::move(options)};
}

inline RowTokenizer tokenizer_for(Objective objective) {
  RowOptions options;
  options.objective = objective;
  return tokenizer_for(std::move(options));
}

inline void expect_same(const TokenizedRow& found, const TokenizedRow& expected) {
  ASSERT_FALSE(expected.examples.empty());
  ASSERT_EQ(found.examples.size(), expected.examples.size());
  for (size_t i = 0; i < found.examples.size(); ++i) {
    const Example& one = found.examples[i];
    const Example& other = expected.examples[i];
    ASSERT_EQ(one.sequences.size(), other.sequences.size());
    for (size_t j = 0; j < one.sequences.size(); ++j) {
      EXPECT_EQ(one.sequences[j].ids, other.sequences[j].ids);
      EXPECT_EQ(one.sequences[j].labels, other.sequences[j].labels);
      EXPECT_EQ(one.sequences[j].prompt, other.sequences[j].prompt);
    }
    EXPECT_EQ(one.desirable, other.desirable);
    EXPECT_EQ(one.margin, other.margin);
  }
}

/// Both rows give the same examples.
inline void expect_same(const RowTokenizer& tokenizer, const char* row, const char* usual) {
  SCOPED_TRACE(row);
  expect_same(tokenizer.tokenize(Json::parse(row)), tokenizer.tokenize(Json::parse(usual)));
}

inline void expect_refused(const RowTokenizer& tokenizer,
                           const char* row,
                           const std::string& reason) {
  SCOPED_TRACE(row);
  expect_error([&] { tokenizer.tokenize(Json::parse(row)); }, reason);
}

inline constexpr const char* kChat =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]})";
inline constexpr const char* kChatCompletion =
    R"({"prompt": [{"role": "user", "content": "Hi"}],
        "completion": [{"role": "assistant", "content": "Yo"}]})";
inline constexpr const char* kChatPair =
    R"({"prompt": [{"role": "user", "content": "Hi"}],
        "chosen": [{"role": "assistant", "content": "Yo"}],
        "rejected": [{"role": "assistant", "content": "No"}]})";

}  // namespace reprise::testing
