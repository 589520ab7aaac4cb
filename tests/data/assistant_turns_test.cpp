// assistant_only_loss: which tokens of a chat are the assistant's, by the template's marks or,
// where it has none, by what each turn adds to the rendered chat.
#include <reprise/data/rows.h>

#include "data/row_checks.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::expect_error;
using testing::tokenizer_for;

Json chat() {
  return Json::parse(R"({"messages": [{"role": "system", "content": "Be brief."},
                                      {"role": "user", "content": "Hi"},
                                      {"role": "assistant", "content": "Yo, what?"},
                                      {"role": "user", "content": "Bye"},
                                      {"role": "assistant", "content": "See you"}]})");
}

std::string template_text(const std::string& name) {
  return read_file(testing::fixtures() / "templates" / (name + ".jinja"));
}

/// The labels of chat() with a template of the fixtures.
TokenSequence sequence_with(const std::string& chat_template,
                            TrainedTurns turns = TrainedTurns::All) {
  const RowTokenizer tokenizer = tokenizer_for({.assistant_only_loss = true,
                                                .trained_turns = turns,
                                                .chat_template = template_text(chat_template)},
                                               "llama3");
  return tokenizer.tokenize(chat()).examples.at(0).sequences.at(0);
}

TEST(AssistantTurns, AreTheSameWithMarksAndWithout) {
  // Two templates that render the same text, one with {% generation %} and one without.
  const TokenSequence marked = sequence_with("llama3_generation");
  const TokenSequence unmarked = sequence_with("llama3");
  EXPECT_EQ(marked.ids, unmarked.ids);
  EXPECT_EQ(marked.labels, unmarked.labels);
}

TEST(AssistantTurns, AreTheWordsOfTheAssistantAndTheEndOfItsTurns) {
  const auto tokenizer = testing::row_tokenizer("llama3");
  TokenIds learnt;
  for (const int64_t label : sequence_with("llama3").labels) {
    if (label != kIgnoredLabel) {
      learnt.push_back(label);
    }
  }
  EXPECT_EQ(tokenizer->decode(learnt), "Yo, what?<|eot_id|>See you<|eot_id|>");
}

TEST(AssistantTurns, TheLastAloneIfAsked) {
  for (const char* name : {"llama3", "llama3_generation"}) {
    const TokenSequence all = sequence_with(name);
    const TokenSequence last = sequence_with(name, TrainedTurns::Last);
    const auto tokenizer = testing::row_tokenizer("llama3");
    const TokenIds end = tokenizer->encode("See you<|eot_id|>", {.add_special_tokens = false}).ids;
    ASSERT_GT(last.labels.size(), end.size());
    const auto begin = last.labels.end() - static_cast<std::ptrdiff_t>(end.size());
    EXPECT_EQ(TokenIds(begin, last.labels.end()), end);
    EXPECT_EQ(TokenIds(last.labels.begin(), begin),
              TokenIds(last.labels.size() - end.size(), kIgnoredLabel));
    EXPECT_NE(all.labels, last.labels);
  }
}

TEST(AssistantTurns, ATemplateThatRewritesFormerTurnsIsRefused) {
  // Former answers are left out, as thoughts are by some templates.
  const RowTokenizer tokenizer = tokenizer_for(
      {.assistant_only_loss = true,
       .chat_template = "{% for m in messages %}{% if loop.last or m.role != 'assistant' %}"
                        "{{ m.role + ': ' + m.content + '\n' }}{% endif %}{% endfor %}"});
  expect_error([&] { tokenizer.tokenize(chat()); }, "{% generation %}");
}

TEST(AssistantTurns, AChatWithoutAnyIsRefused) {
  const Json row = Json::parse(R"({"messages": [{"role": "user", "content": "Hi"}]})");
  for (const char* name : {"qwen2", "llama3"}) {
    const RowTokenizer tokenizer = tokenizer_for({.assistant_only_loss = true}, name);
    expect_error([&] { tokenizer.tokenize(row); }, "the assistant has no tokens in this chat");
  }
}

TEST(AssistantTurns, AChatThatBeginsWithOneNeedsMarks) {
  const Json row = Json::parse(R"({"messages": [{"role": "assistant", "content": "Hi"}]})");
  expect_error([&] { tokenizer_for({.assistant_only_loss = true}, "llama3").tokenize(row); },
               "begins with the assistant");
  const TokenizedRow marked = tokenizer_for({.assistant_only_loss = true}).tokenize(row);
  EXPECT_EQ(marked.examples.size(), 1U);
}

}  // namespace
}  // namespace reprise
