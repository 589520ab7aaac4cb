// Prompts for online training: which rows have one, its ids (TRL's), what rewards get of the row,
// and what becomes of long ones.
#include "data/prompt_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// The ids in these two tests are what GRPOTrainer._tokenize_prompts of trl 1.16.0 returns for the
// tokenizers of tests/fixtures/rows (open_tokenizer in generate_rows.py).
TEST_F(Prompts, TextHasTheTokenizersSpecialTokensAsInTrl) {
  constexpr const char* kText = R"({"prompt": "12+7="})";
  EXPECT_EQ(first(kText).ids, (Ids{16, 17, 10, 22, 28}));
  EXPECT_EQ(first(kText, {}, "llama3").ids, (Ids{480, 16, 17, 10, 22, 28}));
  EXPECT_EQ(first(kText, {}, "llama3").text, "12+7=");
  EXPECT_TRUE(first(kText).messages.empty());
}

TEST_F(Prompts, ChatsEndWithTheGenerationPromptThatTheRowAsksForAsInTrl) {
  Ids expected = {481, 84, 82, 271, 198, 17, 10, 17, 30, 482};
  expected.insert(expected.end(), {198, 481, 64, 433, 72, 434, 64, 77, 83, 198});
  EXPECT_EQ(first(kChatPrompt, {}, "qwen3").ids, expected);
  expected.insert(expected.end(), {483, 330, 484, 330});
  Json row = Json::parse(kChatPrompt);
  row["chat_template_kwargs"] = {{"enable_thinking", false}};
  const Prompt quick = first(row.dump(), {}, "qwen3");
  EXPECT_EQ(quick.ids, expected);
  EXPECT_EQ(quick.text,
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(quick.messages, (std::vector<Json>{{{"role", "user"}, {"content", "2+2?"}}}));
  EXPECT_EQ(first(kChatPrompt, {}, "llama3").ids,
            (Ids{480, 482, 84, 82,  271, 483, 330, 17, 10, 17,  30,
                 484, 482, 64, 434, 72,  435, 64,  77, 83, 483, 330}));
}

TEST_F(Prompts, ToolsOfTheRowAreGivenToItsTemplate) {
  Json row = Json::parse(kChatPrompt);
  row["tools"] = Json::parse(R"([{"type": "function", "function": {"name": "add_numbers"}}])");
  const std::string text = first(row.dump(), {}, "qwen3").text;
  EXPECT_NE(text.find("add_numbers"), std::string::npos) << text;
}

TEST_F(Prompts, AnotherChatTemplateReplacesTheTokenizers) {
  const PromptOptions options{.chat_template =
                                  "{{ bos_token }}{% if tools is none %}Q: {% endif %}"
                                  "{{ messages[0].content }}"
                                  "{% if add_generation_prompt %} A:{% endif %}"};
  const Prompt prompt = first(kChatPrompt, options, "llama3");
  EXPECT_EQ(prompt.text, "<|begin_of_text|>Q: 2+2? A:");
  EXPECT_EQ(std::count(prompt.ids.begin(), prompt.ids.end(), 480), 1);
  EXPECT_EQ(prompt.ids.front(), 480);
}

TEST_F(Prompts, AreFoundUnderTheKeysOfAllConventions) {
  const Prompt usual = first(kChatPrompt);
  for (const char* row : {R"({"prompt": {"role": "user", "content": "2+2?"}})",
                          R"({"prompt": [{"from": "human", "value": "2+2?"}]})",
                          R"({"messages": {"role": "user", "content": "2+2?"}})",
                          R"({"messages": [{"from": "user", "content": "2+2?"}]})",
                          R"({"input": [{"role": "user", "content": "2+2?"}], "label": "4"})",
                          R"({"question": [{"role": "user", "content": "2+2?"}]})"}) {
    SCOPED_TRACE(row);
    const Prompt prompt = first(row);
    EXPECT_EQ(prompt.ids, usual.ids);
    EXPECT_EQ(prompt.text, usual.text);
    EXPECT_EQ(prompt.messages, usual.messages);
  }
  EXPECT_EQ(first(R"({"input": "2+2?"})").text, "2+2?");
  EXPECT_EQ(first(R"({"question": "2+2?", "answer": "4"})").text, "2+2?");
  EXPECT_EQ(first(R"({"question": "no", "prompt": "yes"})").text, "yes");
}

TEST_F(Prompts, ANameGivenForAKeyIsTheOnlyOneLookedFor) {
  const PromptOptions options{.keys = {{"input", "problem"}}};
  EXPECT_EQ(first(R"({"prompt": "no", "problem": "yes"})", options).text, "yes");
  expect_refused(R"({"prompt": "no"})", "Expected the keys of one of: \"problem\"", options);
  expect_refused(R"({"prompt": "a", "functions": []})",
                 "tools_key has no effect",
                 {.keys = {{"tools", "functions"}}});
}

TEST_F(Prompts, CarryEveryColumnOfTheirRowAndItsPlace) {
  const auto prompts = open(R"({"prompt": "a", "answer": 1, "meta": {"level": [2, null]}})"
                            "\n\n"
                            R"({"prompt": "b", "gt_answer": "x"})");
  EXPECT_EQ(prompts->at(0).row,
            Json::parse(R"({"prompt": "a", "answer": 1, "meta": {"level": [2, null]}})"));
  EXPECT_EQ(prompts->at(1).row, Json::parse(R"({"prompt": "b", "gt_answer": "x"})"));
  EXPECT_EQ(prompts->location_name(prompts->at(1).location), place(3));
  EXPECT_EQ(prompts->report().rows, 2);
  EXPECT_EQ(prompts->report().format, "prompt, as text");
}

TEST_F(Prompts, MessagesLoseTheAssistantsLastTurnAndTheReportSaysSo) {
  const auto prompts = open(R"([{"messages": [{"role": "user", "content": "2+2?"}]},
                                {"messages": [{"role": "user", "content": "2+2?"},
                                              {"role": "assistant", "content": "4"}]}])");
  ASSERT_EQ(prompts->size(), 2);
  EXPECT_EQ(prompts->at(1).ids, prompts->at(0).ids);
  EXPECT_EQ(prompts->at(1).messages.size(), 1U);
  EXPECT_EQ(prompts->at(1).row["messages"].size(), 2U);
  EXPECT_EQ(prompts->report().answers_cut_off, 1);
  expect_refused(R"({"messages": [{"role": "assistant", "content": "4"}]})",
                 "has only one message, so there is no prompt");
}

TEST_F(Prompts, InputTemplateIsPutAroundText) {
  const PromptOptions options{.input_template = "Q: {} A:"};
  EXPECT_EQ(first(R"({"prompt": "1+1"})", options).text, "Q: 1+1 A:");
  expect_refused(kChatPrompt, "input_template is for plain text", options);
}

constexpr const char* kShortAndLong = R"({"prompt": "12+7="}
{"prompt": "3+4"}
)";

TEST_F(Prompts, LongerThanTheLimitAreDroppedAndCounted) {
  const auto prompts = open(kShortAndLong, {.max_prompt_length = 4});
  EXPECT_EQ(texts(*prompts), Texts{"3+4"});
  EXPECT_EQ(prompts->at(0).location.line, 2);
  EXPECT_EQ(prompts->report().rows, 2);
  EXPECT_EQ(prompts->report().dropped.at("longer than max_prompt_length"), 1);
  EXPECT_EQ(open(kShortAndLong, {.max_prompt_length = 5})->size(), 2);
}

TEST_F(Prompts, LongerThanTheLimitKeepTheirLastTokensIfAsked) {
  const auto prompts =
      open(kShortAndLong, {.max_prompt_length = 4, .long_prompts = LongPrompts::KeepEnd});
  EXPECT_EQ(prompts->at(0).ids, (Ids{17, 10, 22, 28}));
  EXPECT_EQ(prompts->at(0).text, "12+7=");
  EXPECT_EQ(prompts->at(1).ids.size(), 3U);
  EXPECT_EQ(prompts->report().prompts_shortened, 1);
  EXPECT_TRUE(prompts->report().dropped.empty());
}

TEST_F(Prompts, ThatAreAllDroppedAreAnErrorWithTheCount) {
  expect_refused(kShortAndLong,
                 "no prompt is left; 2 rows; dropped 2: longer than max_prompt_length",
                 {.max_prompt_length = 2});
}

}  // namespace
}  // namespace reprise::testing
