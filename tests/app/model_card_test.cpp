// What lies beside the weights of a trained model or adapter: tokenizer, chat template, card.
#include "app/training.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::json_lines;
using testing::read_text;
using testing::run_program;
using testing::training_fixture;
using testing::Words;

using ModelCard = testing::Training;

TEST_F(ModelCard, OfAnAdapterHasItsTokenizerAndOriginBesideIt) {
  const auto policy = training_fixture("models/policy");
  const auto result =
      sft(training_fixture("data/sft_messages.jsonl"),
          {"--lora_r", "4", "--eval_data", training_fixture("data/sft_messages.jsonl")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const std::string folder : {"out/", "out/checkpoint-3/"}) {
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
      EXPECT_EQ(read_text(path(folder + file)), read_text(policy + "/" + file)) << folder << file;
    }
    const auto card = read_text(path(folder + "README.md"));
    EXPECT_TRUE(card.starts_with("---\nbase_model: \"policy\"\nlibrary_name: peft\n")) << card;
    for (const char* line : {"- \"base_model:adapter:policy\"",
                             "- lora",
                             "- sft",
                             "by SFT on `sft_messages.jsonl`. Evaluated on",
                             "| `learning_rate` | 2e-05 |",
                             "| `lora_r` | 4 |",
                             "- LibTorch 2."}) {
      EXPECT_TRUE(contains(card, line)) << line << "\n" << card;
    }
    EXPECT_FALSE(contains(card, testing::fixtures().string())) << "a folder of the machine\n"
                                                               << card;
    EXPECT_FALSE(contains(card, folder_.path().string())) << card;
  }
}

TEST_F(ModelCard, OfAModelIsWrittenUnlessSomebodyElseWroteOne) {
  const auto data = training_fixture("data/sft_text.jsonl");
  ASSERT_EQ(sft(data).exit_code, 0);
  const auto card = read_text(path("out/README.md"));
  EXPECT_TRUE(contains(card, "library_name: transformers")) << card;
  EXPECT_FALSE(contains(card, "lora")) << card;
  ASSERT_EQ(sft(data, {"--overwrite_output_dir", "--learning_rate", "1e-3"}).exit_code, 0);
  EXPECT_TRUE(contains(read_text(path("out/README.md")), "| `learning_rate` | 0.001 |"));
  write("out/README.md", "Mine.");
  ASSERT_EQ(sft(data, {"--overwrite_output_dir"}).exit_code, 0);
  EXPECT_EQ(read_text(path("out/README.md")), "Mine.");
}

TEST_F(ModelCard, HasTheTemplateThatTheModelWasTrainedWith) {
  const auto jinja = write(
      "mine.jinja",
      "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}");
  for (const Words& words : {Words{}, Words{"--lora_r", "4"}}) {
    Words all{"--chat_template", jinja, "--overwrite_output_dir"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = sft(training_fixture("data/sft_messages.jsonl"), all);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto tokens = run_program({"tokenize", "--model", path("out")},
                                    R"({"messages": [{"role": "user", "content": "Hi"}]})");
    ASSERT_EQ(tokens.exit_code, 0) << tokens.err;
    EXPECT_EQ(json_lines(tokens.out).at(0)["text"], "<user>Hi");
  }
}

TEST_F(ModelCard, KeepsSecretsToItself) {
  const auto data = write("prompts.jsonl", "{\"prompt\": \"One and one is\"}\n");
  const auto result = run_program({"grpo",
                                   "--model",
                                   training_fixture("models/policy"),
                                   "--data",
                                   data,
                                   "--reward_function",
                                   "regex:pattern=s3cret",
                                   "--reward_command",
                                   "S3CRET=s3cret; while read -r line; do echo 1; done",
                                   "--max_completion_length",
                                   "8",
                                   "--max_steps",
                                   "1",
                                   "--device",
                                   "cpu",
                                   "--output_dir",
                                   path("out")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto card = read_text(path("out/README.md"));
  EXPECT_TRUE(contains(card, "by GRPO on `prompts.jsonl`")) << card;
  EXPECT_FALSE(contains(card, "s3cret")) << card;
}

}  // namespace
}  // namespace reprise
