// A model folder: which file gives the special tokens and the chat template.
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

namespace reprise {
namespace {

namespace fs = std::filesystem;

class TokenizerFolder : public ::testing::Test {
 protected:
  TokenizerFolder() {
    fs::create_directories(path_);
    write_file(path_ / "tokenizer.json",
               train_bpe("", {.special_tokens = {"<s>", "</s>", "<pad>"}}));
  }
  ~TokenizerFolder() override { fs::remove_all(path_); }

  void write(const char* name, const Json& json) const { write_json(path_ / name, json); }
  std::shared_ptr<const Tokenizer> open() const { return Tokenizer::open(path_); }

  const fs::path path_ = fs::path(::testing::TempDir()) /
                         ("reprise_tokenizer_" + std::to_string(std::random_device{}()));
  const Json messages_ = {{{"role", "user"}, {"content", "hi"}}};
};

TEST_F(TokenizerFolder, SpecialTokensAreStringsOrObjects) {
  write("tokenizer_config.json",
        {{"bos_token", "<s>"},
         {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
         {"unk_token", nullptr}});
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->special_tokens().bos, 0);
  EXPECT_EQ(tokenizer->special_tokens().eos, 1);
  EXPECT_FALSE(tokenizer->special_tokens().unk);
}

TEST_F(TokenizerFolder, SpecialTokensMapFillsWhatTheConfigurationLacks) {
  write("tokenizer_config.json", {{"eos_token", "</s>"}});
  write("special_tokens_map.json", {{"eos_token", "<s>"}, {"pad_token", "<pad>"}});
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->special_tokens().eos, 1);
  EXPECT_EQ(tokenizer->special_tokens().pad, 2);
}

TEST_F(TokenizerFolder, ChatTemplateSeesSpecialTokensAndVariables) {
  write("tokenizer_config.json",
        {{"bos_token", "<s>"},
         {"chat_template", "{{ bos_token }}{{ messages[0].content }}{{ extra }}"}});
  const auto tokenizer = open();
  ASSERT_NE(tokenizer->chat_template(), nullptr);
  EXPECT_EQ(tokenizer->render_chat(messages_, {{"extra", "!"}}).text, "<s>hi!");
}

TEST_F(TokenizerFolder, TheDefaultOfSeveralTemplatesCounts) {
  write("tokenizer_config.json",
        {{"chat_template",
          {{{"name", "tool_use"}, {"template", "tools"}},
           {{"name", "default"}, {"template", "plain"}}}}});
  EXPECT_EQ(open()->render_chat(messages_).text, "plain");
}

TEST_F(TokenizerFolder, TemplateFilesComeBeforeTheConfiguration) {
  write("tokenizer_config.json", {{"chat_template", "config"}});
  write("chat_template.json", {{"chat_template", "json"}});
  EXPECT_EQ(open()->render_chat(messages_).text, "json");
  write_file(path_ / "chat_template.jinja", "jinja");
  EXPECT_EQ(open()->render_chat(messages_).text, "jinja");
}

TEST_F(TokenizerFolder, WithoutATemplateRenderingSaysSo) {
  EXPECT_EQ(open()->chat_template(), nullptr);
  EXPECT_THROW(open()->render_chat(messages_), c10::Error);
}

TEST_F(TokenizerFolder, EncodedChatKnowsTheAssistantsOwnTokens) {
  write(
      "tokenizer_config.json",
      {{"chat_template", "<s>{{ messages[0].content }}{% generation %}AB{% endgeneration %}</s>"}});
  const Tokenizer::EncodedChat chat = open()->encode_chat(messages_);
  ASSERT_EQ(chat.ids.size(), 6U);  // <s> h i A B </s>
  EXPECT_EQ(chat.generated, (std::vector<bool>{false, false, false, true, true, false}));
}

TEST_F(TokenizerFolder, WithoutTokenizerFilesTheErrorNamesThem) {
  fs::remove(path_ / "tokenizer.json");
  try {
    open();
    FAIL();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find("tokenizer.model"), std::string::npos) << message;
    EXPECT_NE(message.find(path_.string()), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace reprise
