// sequence_preview: the user sees the text, and which tokens are learnt.
#include <reprise/data/rows.h>

#include "data/row_checks.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::expect_error;
using testing::tokenizer_for;

std::string shown(const RowOptions& options, const char* row, const char* tokenizer = "qwen2") {
  const RowTokenizer rows = tokenizer_for(options, tokenizer);
  const TokenizedRow tokenized = rows.tokenize(Json::parse(row));
  return sequence_preview(rows.tokenizer(), tokenized.examples.at(0).sequences.at(0));
}

TEST(SequencePreview, BracketsWhatIsLearnt) {
  EXPECT_EQ(shown({}, R"({"prompt": "Say", "completion": " it 🐈"})"), "Say[[ it 🐈<|im_end|>]]");
  EXPECT_EQ(shown({}, R"({"text": "Say it"})", "llama3"), "[[<|begin_of_text|>Say it<|eot_id|>]]");
}

TEST(SequencePreview, ShowsTheJudgementOfAStep) {
  const char* row = R"({"prompt": "Q", "completions": ["a", "b"], "labels": [1, 0]})";
  EXPECT_EQ(shown({.objective = Objective::Prm}, row), "Qa[[\n -> 1]]b[[\n -> 0]]");
}

TEST(SequencePreview, ShowsTheProbabilityOfASoftLabel) {
  const RowOptions options = {.objective = Objective::Prm,
                              .prm = PrmConvention::Placeholders,
                              .placeholder_token = "+",
                              .reward_tokens = {"+", "-"}};
  EXPECT_EQ(shown(options, R"({"input": "a\n+b", "label": [0.25]})"), "a\n[[+ -> 0.25]]b");
}

TEST(SequencePreview, RefusesASequenceWithoutLabels) {
  TokenSequence sequence;
  sequence.ids = {1, 2};
  expect_error([&] { sequence_preview(*testing::row_tokenizer("qwen2"), sequence); },
               "2 ids and 0 labels");
}

}  // namespace
}  // namespace reprise
