// Conventions beyond TRL's own: those of OpenRLHF, ColossalAI, ShareGPT and the DPO repository mean
// what a row in TRL's form means.
#include <reprise/data/rows.h>

#include "data/row_checks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace reprise {
namespace {

using testing::expect_refused;
using testing::expect_same;
using testing::kChat;
using testing::kChatCompletion;
using testing::kChatPair;
using testing::tokenizer_for;

TEST(RowConventions, ShareGptAndColossalNamesMeanRoleAndContent) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  expect_same(sft,
              R"({"conversations": [{"from": "human", "value": "Hi"},
                                    {"from": "gpt", "value": "Yo"}]})",
              kChat);
  expect_same(sft,
              R"({"messages": [{"from": "user", "content": "Hi"},
                               {"from": "assistant", "content": "Yo"}]})",
              kChat);
}

TEST(RowConventions, OpenRlhfKeysMeanPromptAndCompletion) {
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  expect_same(
      sft, R"({"input": "One", "output": " two"})", R"({"prompt": "One", "completion": " two"})");
  expect_same(sft, R"({"input": "One"})", R"({"text": "One"})");
  expect_same(tokenizer_for(Objective::Kto),
              R"({"input": "One", "output": " two", "label": 0})",
              R"({"prompt": "One", "completion": " two", "label": false})");
}

TEST(RowConventions, AChatInInputTeachesItsLastMessage) {
  expect_same(tokenizer_for(Objective::Sft),
              R"({"input": [{"role": "user", "content": "Hi"},
                            {"role": "assistant", "content": "Yo"}]})",
              kChatCompletion);
  expect_refused(tokenizer_for(Objective::Sft),
                 R"({"input": [{"role": "assistant", "content": "Yo"},
                               {"role": "user", "content": "Hi"}]})",
                 "must be the assistant's");
}

TEST(RowConventions, AChatInInputTeachesAllTurnsIfAsked) {
  RowOptions options;
  options.assistant_only_loss = true;
  expect_same(tokenizer_for(std::move(options)),
              R"({"input": [{"role": "user", "content": "Hi"},
                            {"role": "assistant", "content": "Yo"}]})",
              kChat);
}

TEST(RowConventions, ColossalContextAndSingleMessagesAreChats) {
  for (const Objective objective : {Objective::Dpo, Objective::Rm, Objective::Kto}) {
    expect_same(tokenizer_for(objective),
                R"({"context": [{"from": "human", "content": "Hi"}],
                    "chosen": [{"from": "assistant", "content": "Yo"}],
                    "rejected": [{"from": "assistant", "content": "No"}]})",
                kChatPair);
  }
  expect_same(tokenizer_for(Objective::Kto),
              R"({"prompt": [{"from": "user", "content": "Hi"}],
                  "completion": {"from": "assistant", "content": "Yo"}, "label": true})",
              R"({"prompt": [{"role": "user", "content": "Hi"}],
                  "completion": [{"role": "assistant", "content": "Yo"}], "label": 1})");
}

TEST(RowConventions, APromptRepeatedAsTextBesideChatsIsNotUsed) {
  for (const Objective objective : {Objective::Dpo, Objective::Rm, Objective::Kto}) {
    expect_same(tokenizer_for(objective),
                R"({"prompt": "Hi",
                    "chosen": [{"role": "user", "content": "Hi"},
                               {"role": "assistant", "content": "Yo"}],
                    "rejected": [{"content": "Hi", "role": "user"},
                                 {"role": "assistant", "content": "No"}]})",
                kChatPair);
  }
}

TEST(RowConventions, ResponsesGiveAnExampleForEachPair) {
  const RowTokenizer dpo = tokenizer_for(Objective::Dpo);
  const TokenizedRow row = dpo.tokenize(Json::parse(
      R"({"prompt": "One", "responses": [" a", " b", " c"], "pairs": [[2, 0], [1, 0]],
          "sft_target": " c"})"));
  TokenizedRow expected =
      dpo.tokenize(Json::parse(R"({"prompt": "One", "chosen": " c", "rejected": " a"})"));
  expected.examples.push_back(
      dpo.tokenize(Json::parse(R"({"prompt": "One", "chosen": " b", "rejected": " a"})"))
          .examples.front());
  expect_same(row, expected);
  expect_same(tokenizer_for(Objective::Sft),
              R"({"prompt": "One", "responses": [], "pairs": [], "sft_target": " c"})",
              R"({"prompt": "One", "completion": " c"})");
  expect_refused(dpo,
                 R"({"prompt": "One", "responses": [" a", " b"], "pairs": [[0, 2]]})",
                 "expected indices below 2");
}

TEST(RowConventions, KeysCanHaveOtherNames) {
  RowOptions options;
  options.keys = {{"prompt", "question"}, {"completion", "answer"}};
  const RowTokenizer renamed = tokenizer_for(options);
  const Json row = Json::parse(R"({"question": "One", "answer": " two", "prompt": 7})");
  expect_same(renamed.tokenize(row),
              tokenizer_for(Objective::Sft)
                  .tokenize(Json::parse(R"({"prompt": "One", "completion": " two"})")));
  EXPECT_EQ(renamed.describe(row), "prompt + completion, as text");
  expect_refused(
      renamed, R"({"question": 3, "answer": " two"})", "\"question\": expected a string");
  expect_refused(renamed, R"({"prompt": "One", "completion": " two"})", "prompt, completion");
}

TEST(RowConventions, AnInputTemplateStandsAroundPlainPrompts) {
  RowOptions options;
  options.input_template = "User: {}\nAssistant:";
  const RowTokenizer with = tokenizer_for(options);
  expect_same(with.tokenize(Json::parse(R"({"prompt": "{} One", "completion": " two"})")),
              tokenizer_for(Objective::Sft)
                  .tokenize(Json::parse(
                      R"({"prompt": "User: {} One\nAssistant:", "completion": " two"})")));
  expect_refused(with, kChatCompletion, "input_template is for plain text");
}

TEST(RowConventions, AChatTemplateCanReplaceTheTokenizersOwn) {
  RowOptions options;
  options.chat_template =
      "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}"
      "{% endfor %}{% if add_generation_prompt %}>{% endif %}";
  const auto llama3 = testing::row_tokenizer("llama3");
  const TokenizedRow row = tokenizer_for(options, "llama3").tokenize(Json::parse(kChat));
  EXPECT_EQ(
      row.examples.at(0).sequences[0].ids,
      llama3->encode("<|begin_of_text|>Hi<|eot_id|>Yo<|eot_id|>", {.add_special_tokens = false})
          .ids);
}

TEST(RowConventions, DescribeNamesTheConvention) {
  const auto describe = [](Objective objective, const char* row) {
    return tokenizer_for(objective).describe(Json::parse(row));
  };
  EXPECT_EQ(describe(Objective::Sft, kChat), "messages");
  EXPECT_EQ(describe(Objective::Sft, kChatCompletion), "prompt + completion, as chat");
  EXPECT_EQ(describe(Objective::Kd, R"({"text": "One", "tools": null})"), "text");
  EXPECT_EQ(describe(Objective::Dpo, kChatPair), "prompt + chosen + rejected, as chat");
  EXPECT_EQ(describe(Objective::Rm, R"({"chosen": "a", "rejected": "b"})"),
            "chosen + rejected, as text");
  EXPECT_EQ(describe(Objective::Kto, R"({"prompt": "a", "completion": "b", "label": true})"),
            "prompt + completion + label, as text");
  EXPECT_EQ(describe(Objective::Prm, R"({"prompt": "a", "completions": ["b"], "labels": [1]})"),
            "prompt + completions + labels");
}

TEST(RowConventions, DistillationReadsRowsAsFineTuningDoes) {
  const Json row = Json::parse(R"({"prompt": "One", "completion": " two"})");
  expect_same(tokenizer_for(Objective::Kd).tokenize(row),
              tokenizer_for(Objective::Sft).tokenize(row));
}

TEST(RowConventions, ARowMayLoseOneOfItsPairsAndKeepTheOther) {
  RowOptions options;
  options.objective = Objective::Rm;
  options.max_length = 6;
  const TokenizedRow row = tokenizer_for(options).tokenize(Json::parse(
      R"({"prompt": "One", "responses": [" a", " b", " c c c c c"], "pairs": [[0, 1], [0, 2]]})"));
  EXPECT_EQ(row.examples.size(), 1u);
  EXPECT_EQ(row.dropped, (std::map<std::string, int64_t>{{"longer than max_length", 1}}));
}

TEST(RowConventions, AHintTellsWhereAPromptEndsInOtherTokensThanBeforeItsCompletion) {
  for (const auto& [objective, row] : {
           std::pair{Objective::Sft, R"({"prompt": "One t", "completion": "he"})"},
           {Objective::Dpo, R"({"prompt": "One t", "chosen": " x", "rejected": "he"})"},
           {Objective::Kto, R"({"prompt": "One t", "chosen": " x", "rejected": "he"})"},
       }) {
    const std::string hint = tokenizer_for(objective).tokenize(Json::parse(row)).hint;
    EXPECT_TRUE(hint.starts_with("the prompt alone ends in \" t\", which are different tokens"))
        << to_string(objective) << ": " << hint;
  }
  const RowTokenizer sft = tokenizer_for(Objective::Sft);
  EXPECT_EQ(sft.tokenize(Json::parse(R"({"prompt": "One", "completion": " two"})")).hint, "");
  EXPECT_EQ(sft.tokenize(Json::parse(kChatCompletion)).hint, "");
  EXPECT_EQ(sft.tokenize(Json::parse(R"({"text": "One two"})")).hint, "");
}

TEST(RowConventions, RowsThatAreTooLongAreDroppedIfAsked) {
  RowOptions options;
  options.drop_too_long = true;
  options.max_length = 3;
  const TokenizedRow row = tokenizer_for(options).tokenize(Json::parse(R"({"text": "One two"})"));
  EXPECT_TRUE(row.examples.empty());
  EXPECT_EQ(row.dropped, (std::map<std::string, int64_t>{{"longer than max_length", 1}}));
}

TEST(RowOptions, EveryOptionChangesTheJsonThatCachesAreFoundBy) {
  const std::string usual = RowOptions{}.to_json().dump();
  for (const RowOptions& changed : {RowOptions{.objective = Objective::Kd},
                                    RowOptions{.max_length = 7},
                                    RowOptions{.truncation = TruncationSide::KeepEnd},
                                    RowOptions{.drop_too_long = true},
                                    RowOptions{.completion_only_loss = false},
                                    RowOptions{.assistant_only_loss = true},
                                    RowOptions{.trained_turns = TrainedTurns::Last},
                                    RowOptions{.prm = PrmConvention::Placeholders},
                                    RowOptions{.step_separator = ""},
                                    RowOptions{.train_on_last_step_only = true},
                                    RowOptions{.placeholder_token = "a"},
                                    RowOptions{.reward_tokens = {"a"}},
                                    RowOptions{.input_template = "{}"},
                                    RowOptions{.chat_template = "a"},
                                    RowOptions{.keys = {{"prompt", "a"}}}}) {
    EXPECT_NE(changed.to_json().dump(), usual);
  }
}

}  // namespace
}  // namespace reprise
