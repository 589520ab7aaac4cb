// Rows that follow no convention, values of the wrong kind and options that contradict each other
// are refused, and the message says which key, what was expected and what was found.
#include <reprise/data/rows.h>

#include "data/row_checks.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::expect_error;
using testing::expect_refused;
using testing::kChat;
using testing::kChatCompletion;
using testing::kChatPair;
using testing::tokenizer_for;

TEST(RowRefusals, ARowOfNoConventionNamesItsKeysAndThoseExpected) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  expect_refused(sft, R"({"question": "a", "answer": "b"})", "Its keys are: question, answer");
  expect_refused(sft, R"({"question": "a"})", "prompt and completion; messages");
  expect_refused(sft, R"({})", "Its keys are: none");
  expect_refused(sft, R"({"text": null})", "text (null)");
  expect_refused(sft, R"(["a"])", "a row must be a JSON object");
  // Alpaca's input is the second half of a prompt.
  expect_refused(sft, R"({"instruction": "a", "input": "b", "output": "c"})", "not a row for sft");
  expect_refused(tokenizer_for(Objective::Dpo), kChat, "not a row for dpo");
  expect_refused(tokenizer_for(Objective::Kto), kChatCompletion, "not a row for kto");
  expect_refused(tokenizer_for(Objective::Prm), R"({"prompt": "a"})", "not a row for prm");
}

TEST(RowRefusals, ValuesOfOtherTypesAreNamed) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  expect_refused(sft, R"({"text": 3})", "\"text\": expected a string or a list of messages");
  expect_refused(sft, R"({"text": ""})", "\"text\" is an empty string");
  expect_refused(sft, R"({"messages": "Hi"})", "\"messages\": expected a list of messages");
  expect_refused(sft, R"({"messages": []})", "\"messages\" is an empty list");
  expect_refused(sft, R"({"messages": ["Hi"]})", "\"messages\"[0]: expected a message");
  expect_refused(sft, R"({"messages": [{"content": "Hi"}]})", "expected a role");
  expect_refused(sft, R"({"messages": [{"role": "user"}]})", "has no content");
  expect_refused(sft, R"({"messages": [{"role": "user", "content": 3}]})", "as content");
  expect_refused(sft,
                 R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
                 "must be text only");
  expect_refused(sft,
                 R"({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]})",
                 "both must be of the same kind");
  expect_refused(sft, R"({"prompt": "a", "completion": ""})", "\"completion\" is an empty string");
  expect_refused(tokenizer_for(Objective::Dpo),
                 R"({"chosen": "a", "rejected": [{"role": "assistant", "content": "b"}]})",
                 "must both be text or both be chats");
  expect_refused(tokenizer_for(Objective::Rm),
                 R"({"chosen": "a", "rejected": "b", "margin": "c"})",
                 "\"margin\": expected a number");
}

TEST(RowRefusals, ALongValueIsCutBetweenCharactersSoThatReportsCanBeWritten) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  for (size_t shift = 0; shift < 3; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 30; ++i) {
      text += "日";
    }
    const std::string message = testing::error_of([&] { sft.tokenize({{"messages", text}}); });
    EXPECT_NE(message.find("日..."), std::string::npos) << message;
    EXPECT_NO_THROW(Json(message).dump());
  }
}

TEST(RowRefusals, WhatARowGivesItsTemplateIsChecked) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  Json row = Json::parse(kChat);
  row["tools"] = "{";
  expect_error([&] { sft.tokenize(row); }, "tools");
  row["tools"] = 3;
  expect_error([&] { sft.tokenize(row); }, "expected a list of tools");
  row["tools"] = nullptr;
  row["chat_template_kwargs"] = {{"messages", Json::array()}};
  expect_error([&] { sft.tokenize(row); }, "which a row cannot set");
}

TEST(RowRefusals, LabelsMustBeInRange) {
  const RowTokenizer kto = tokenizer_for(Objective::Kto);
  for (const char* label : {"2", "-1", "\"yes\"", "0.5", "[true]"}) {
    const std::string row =
        R"({"prompt": "a", "completion": "b", "label": )" + std::string(label) + "}";
    expect_refused(kto, row.c_str(), "\"label\": expected true or false");
  }
  const RowTokenizer prm = tokenizer_for(Objective::Prm);
  for (const char* label : {"-1", "0.5", "\"+\"", "null", "4294967296"}) {
    const std::string row =
        R"({"prompt": "a", "completions": ["b"], "labels": [)" + std::string(label) + "]}";
    expect_refused(prm, row.c_str(), "\"labels\": expected true, false or the number of a class");
  }
  expect_refused(prm,
                 R"({"prompt": "a", "completions": ["b", "c"], "labels": [1]})",
                 "2 completions and 1 labels");
  expect_refused(prm, R"({"prompt": "a", "completions": [], "labels": []})", "at least one");
  expect_refused(prm, R"({"prompt": "a", "completions": [""], "labels": [1]})", "not empty");
}

TEST(RowRefusals, PlaceholdersAndTheirLabelsMustAgree) {
  RowOptions options;
  options.objective = Objective::Prm;
  options.prm = PrmConvention::Placeholders;
  options.placeholder_token = "+";
  options.reward_tokens = {"+", "-"};
  const RowTokenizer prm = tokenizer_for(options);
  expect_refused(prm, R"({"input": "a+", "label": ["+", "+"]})", "has 1 placeholders");
  expect_refused(prm, R"({"input": "a+", "label": ["*"]})", "not among reward_tokens");
  expect_refused(prm, R"({"input": "a+", "label": [1.5]})", "probabilities from 0 to 1");
  expect_refused(prm, R"({"input": "a+b+", "label": ["+", 0.5]})", "all probabilities");
  expect_refused(prm, R"({"input": 3, "label": ["+"]})", "\"input\": expected a string");
  options.reward_tokens = {};
  expect_refused(tokenizer_for(options), R"({"input": "a+", "label": [0.5]})", "two reward_tokens");
  options.placeholder_token = "two words";
  expect_error([&] { tokenizer_for(options); }, "must be one token");
}

TEST(RowRefusals, TextThatIsNotUtf8IsRefused) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  expect_error([&] { sft.tokenize({{"text", "a\xff"}}); }, "UTF-8");
  Json row = Json::parse(kChat);
  row["messages"][0]["content"] = "\xc3";
  expect_error([&] { sft.tokenize(row); }, "UTF-8");
}

TEST(RowRefusals, OptionsWithoutEffectAreRefused) {
  const auto expect_useless = [](RowOptions options, const std::string& option) {
    expect_error([&] { tokenizer_for(options); }, option + " has no effect");
  };
  expect_useless({.objective = Objective::Rm, .truncation = TruncationSide::KeepEnd},
                 "truncation at the start");
  expect_useless({.objective = Objective::Dpo, .assistant_only_loss = true}, "assistant_only_loss");
  expect_useless({.trained_turns = TrainedTurns::Last},
                 "trained_turns without assistant_only_loss");
  expect_useless({.objective = Objective::Dpo, .completion_only_loss = true},
                 "completion_only_loss");
  expect_useless({.reward_tokens = {"+"}}, "reward_tokens");
  expect_error([] { tokenizer_for({.keys = {{"promt", "a"}}}); }, "there is no key \"promt\"");
  expect_error([] { tokenizer_for({.max_length = -1}); }, "max_length must be positive");
  expect_error([] { tokenizer_for({.input_template = "no hole"}); }, "{} once");
  expect_refused(tokenizer_for({.assistant_only_loss = true}),
                 R"({"text": "a"})",
                 "assistant_only_loss is for chats");
  expect_refused(tokenizer_for({.input_template = "User: {}"}),
                 R"({"text": "a"})",
                 "input_template applies to plain-text prompts");
  expect_refused(tokenizer_for({.chat_template = "{{ messages }}"}),
                 R"({"text": "a"})",
                 "chat_template is for chats");
  expect_refused(tokenizer_for({.completion_only_loss = true}),
                 kChat,
                 "completion_only_loss is for rows with prompt and completion");
}

TEST(RowRefusals, OnlineTrainingHasPromptsInsteadOfRows) {
  for (const Objective objective : {Objective::Grpo, Objective::Ppo}) {
    expect_error([&] { tokenizer_for({.objective = objective}); },
                 to_string(objective) + " has prompts instead of rows");
  }
}

RowOptions for_objective(Objective objective, RowOptions options) {
  options.objective = objective;
  return options;
}

TEST(RowRefusals, TemplatesThatPairsAndJudgedAnswersDoNotUse) {
  constexpr const char* kTextPair = R"({"prompt": "a", "chosen": "b", "rejected": "c"})";
  constexpr const char* kPromptlessPair = R"({"chosen": "a b", "rejected": "a c"})";
  constexpr const char* kJudged = R"({"prompt": "a", "completion": "b", "label": true})";
  constexpr const char* kJudgedChat =
      R"({"label": 1, "input": [{"role": "user", "content": "a"},
                                {"role": "assistant", "content": "b"}]})";
  const RowOptions around{.input_template = "User: {}"};
  const RowOptions chats{.chat_template = "{{ messages }}"};
  for (const Objective objective : {Objective::Dpo, Objective::Rm, Objective::Kto}) {
    const RowTokenizer prompts = tokenizer_for(for_objective(objective, around));
    EXPECT_NO_THROW(prompts.tokenize(Json::parse(kTextPair)));
    expect_refused(prompts, kChatPair, "input_template is");
    expect_refused(prompts, kPromptlessPair, "input_template applies to plain-text prompts");
    const RowTokenizer rendered = tokenizer_for(for_objective(objective, chats));
    EXPECT_NO_THROW(rendered.tokenize(Json::parse(kChatPair)));
    expect_refused(rendered, kTextPair, "chat_template is for chats");
  }
  const RowTokenizer judged = tokenizer_for(for_objective(Objective::Kto, around));
  EXPECT_NO_THROW(judged.tokenize(Json::parse(kJudged)));
  expect_refused(judged, kJudgedChat, "input_template applies to plain-text prompts");
  expect_refused(tokenizer_for(for_objective(Objective::Kto, chats)), kJudged, "chat_template is");
}

TEST(RowRefusals, NamesOfKeysThatTheRowIsReadWithout) {
  const auto named = [](Objective objective, const char* role, const char* name) {
    return tokenizer_for(for_objective(objective, {.keys = {{role, name}}}));
  };
  expect_refused(named(Objective::Sft, "prompt", "question"),
                 kChat,
                 "prompt_key has no effect: \"question\" is not read from this row, which "
                 "is messages");
  expect_refused(named(Objective::Sft, "tools", "functions"), R"({"text": "a"})", "tools_key has");
  EXPECT_NO_THROW(named(Objective::Sft, "tools", "functions").tokenize(Json::parse(kChat)));
  // A slip in the name, and the row would be read as one without a prompt.
  constexpr const char* kPair = R"({"question": "a", "chosen": "b", "rejected": "c"})";
  expect_refused(named(Objective::Rm, "prompt", "qestion"), kPair, "prompt_key has no effect");
  EXPECT_NO_THROW(named(Objective::Rm, "prompt", "question").tokenize(Json::parse(kPair)));
  EXPECT_NO_THROW(named(Objective::Rm, "margin", "m").tokenize(Json::parse(kPair)));
  expect_refused(named(Objective::Dpo, "margin", "m"), kPair, "margin_key has no effect");
  expect_refused(named(Objective::Kto, "label", "good"), kPair, "label_key has no effect");
  const RowTokenizer steps = named(Objective::Prm, "input", "i");
  expect_error(
      [&] {
        steps.describe(
            Json::parse(R"({"prompt": "a", "completions": ["b"], "labels": [true], "i": "c"})"));
      },
      "input_key has no effect");
}

}  // namespace
}  // namespace reprise
