// A model folder: which file gives the special tokens and the chat template.
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  ADD_FAILURE() << "no error";
  return {};
}

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

// Which file counts, ids and flags: as transformers 5.17 opens the same folders.
TEST_F(TokenizerFolder, SpecialTokensMapCountsBeforeAConfigurationWithoutAddedTokens) {
  write("tokenizer_config.json", {{"eos_token", "</s>"}});
  write("special_tokens_map.json", {{"eos_token", "<s>"}, {"pad_token", "<pad>"}});
  EXPECT_EQ(open()->special_tokens().eos, 0);
  EXPECT_EQ(open()->special_tokens().pad, 2);
  write("tokenizer_config.json", {{"eos_token", "</s>"}, {"added_tokens_decoder", Json::object()}});
  EXPECT_EQ(open()->special_tokens().eos, 1);
  EXPECT_FALSE(open()->special_tokens().pad);
}

TEST_F(TokenizerFolder, AddedTokensOfTheConfigurationOverrideFlagsAndAddTokens) {
  const int64_t before = open()->size();
  EXPECT_EQ(open()->encode("A <s>").ids.size(), 3U);
  write("tokenizer_config.json",
        {{"added_tokens_decoder",
          {{"900", {{"content", "<new>"}, {"special", false}}},
           {"0", {{"content", "<s>"}, {"lstrip", true}, {"special", true}}}}}});
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->encode("A <s>").ids.size(), 2U);
  EXPECT_EQ(tokenizer->encode("<new>").ids, TokenIds{before});
  EXPECT_FALSE(tokenizer->is_special(before));
}

TEST_F(TokenizerFolder, SpecialTokensThatTheVocabularyLacksGetTheNextIds) {
  const int64_t before = open()->size();
  write("tokenizer_config.json",
        {{"extra_special_tokens", {"<e1>", "<s>"}},
         {"additional_special_tokens", {"<not>"}},
         {"audio_token", "<audio>"},
         {"pad_token", "<p>"},
         {"eos_token", "A"}});
  write("added_tokens.json", {{"<at>", 700}, {"<s>", 0}});
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->id_of("<at>"), before);
  EXPECT_EQ(tokenizer->special_tokens().pad, before + 1);
  EXPECT_EQ(tokenizer->id_of("<audio>"), before + 2);
  EXPECT_EQ(tokenizer->id_of("<e1>"), before + 3);
  EXPECT_EQ(tokenizer->size(), before + 4);
  EXPECT_TRUE(tokenizer->is_special(before + 1));
  EXPECT_FALSE(tokenizer->is_special(before));
  EXPECT_TRUE(tokenizer->is_special(*tokenizer->id_of("A")));
  EXPECT_TRUE(tokenizer->is_special(0));
}

TEST_F(TokenizerFolder, TokensWithANameAreSpecial) {
  const int64_t before = open()->size();
  const Json plain = {{"content", "<e>"}, {"special", false}};
  write("tokenizer_config.json",
        {{"eos_token", "<e>"}, {"added_tokens_decoder", {{"900", plain}}}});
  EXPECT_TRUE(open()->is_special(before));
  write("tokenizer_config.json", {{"eos_token", "<e>"}});
  write("added_tokens.json", {{"<e>", 900}});
  EXPECT_TRUE(open()->is_special(before));
  Json tokenizer = read_json(path_ / "tokenizer.json");
  tokenizer["added_tokens"][0]["special"] = false;
  write("tokenizer.json", tokenizer);
  EXPECT_FALSE(open()->is_special(0));
  write("tokenizer_config.json", {{"eos_token", "<s>"}});
  EXPECT_TRUE(open()->is_special(0));
}

TEST_F(TokenizerFolder, NamedExtraTokensAreTemplateVariables) {
  write("tokenizer_config.json",
        {{"extra_special_tokens", {{"image_token", "<img>"}, {"boi", "<b>"}}},
         {"chat_template", "{{ image_token }}{{ boi }}"}});
  EXPECT_EQ(open()->render_chat(messages_).text, "<img><b>");
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

TEST_F(TokenizerFolder, ToolsAndDocumentsAreDefinedAndNone) {
  write("tokenizer_config.json",
        {{"chat_template",
          "{% if tools is not none %}T{% endif %}{% if tools is defined %}D{% endif %}"
          "{% if documents is defined and documents is none %}N{% endif %}"}});
  EXPECT_EQ(open()->render_chat(messages_).text, "DN");
  EXPECT_EQ(open()->render_chat(messages_, {{"tools", Json::array()}}).text, "TDN");
}

TEST_F(TokenizerFolder, ToolsAreRenderedByTheTemplateForTools) {
  const Json with_tools = {{"tools", Json::array()}};
  write("tokenizer_config.json",
        {{"chat_template", {{"default", "plain"}, {"tool_use", "tools"}}}});
  EXPECT_EQ(open()->render_chat(messages_).text, "plain");
  EXPECT_EQ(open()->render_chat(messages_, {{"tools", nullptr}}).text, "plain");
  EXPECT_EQ(open()->render_chat(messages_, with_tools).text, "tools");
  fs::create_directories(path_ / "additional_chat_templates");
  write_file(path_ / "additional_chat_templates" / "tool_use.jinja", "file");
  EXPECT_EQ(open()->render_chat(messages_, with_tools).text, "file");
  write_file(path_ / "chat_template.jinja", "alone");
  EXPECT_EQ(open()->render_chat(messages_).text, "alone");
}

TEST_F(TokenizerFolder, SeveralTemplatesWithoutADefaultAreNamed) {
  write("tokenizer_config.json",
        {{"chat_template",
          {{{"name", "rag"}, {"template", "r"}}, {{"name", "tool_use"}, {"template", "t"}}}}});
  const auto tokenizer = open();
  EXPECT_NE(error_of([&] { tokenizer->render_chat(messages_); }).find("rag, tool_use"),
            std::string::npos);
}

TEST_F(TokenizerFolder, ErrorsNameFileAndField) {
  struct Case {
    const char* file;
    Json json;
    const char* field;
  };
  const std::vector<Case> cases = {
      {"tokenizer_config.json", {{"chat_template", 7}}, "field chat_template: "},
      {"tokenizer_config.json", {{"chat_template", {{"default", 7}}}}, "chat_template.default"},
      {"tokenizer_config.json", {{"chat_template", "{% if %}"}}, "field chat_template: line 1"},
      {"tokenizer_config.json", {{"bos_token", 7}}, "field bos_token"},
      {"tokenizer_config.json", {{"extra_special_tokens", "x"}}, "field extra_special_tokens"},
      {"tokenizer_config.json",
       {{"extra_special_tokens", {"<e>", 7}}},
       "field extra_special_tokens[1]"},
      {"tokenizer_config.json", Json::array(), "expected an object"},
      {"special_tokens_map.json", Json::array(), "expected an object"},
      {"special_tokens_map.json", {{"eos_token", {{"lstrip", true}}}}, "field eos_token.content"},
      {"added_tokens.json", {{"<at>", -1}}, "field <at>"},
      {"chat_template.json", {{"chat_template", 7}}, "field chat_template"}};
  for (const Case& bad : cases) {
    write(bad.file, bad.json);
    const std::string message = error_of([&] { open(); });
    EXPECT_NE(message.find((path_ / bad.file).string()), std::string::npos) << message;
    EXPECT_NE(message.find(bad.field), std::string::npos) << message;
    fs::remove(path_ / bad.file);
  }
  write_file(path_ / "chat_template.jinja", "{{ raise_exception('no') }}");
  const std::string message = error_of([&] { open()->render_chat(messages_); });
  EXPECT_NE(message.find((path_ / "chat_template.jinja").string()), std::string::npos) << message;
}

TEST_F(TokenizerFolder, TemplateFilesComeBeforeTheConfiguration) {
  write("chat_template.json", {{"chat_template", "json"}});
  EXPECT_EQ(open()->render_chat(messages_).text, "json");
  write("tokenizer_config.json", {{"chat_template", "config"}});
  EXPECT_EQ(open()->render_chat(messages_).text, "config");
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

// The masks that transformers 5.17 gives, with tokens over the edges of the block.
TEST_F(TokenizerFolder, TokensOverTheEdgeOfAGenerationBlockAreGenerated) {
  write_file(path_ / "tokenizer.json",
             R"({"version": "1.0", "added_tokens": [{"id": 6, "content": "<s>", "rstrip": true,
               "special": true}], "model": {"type": "BPE", "merges": [["a", "b"], ["b", "c"]],
               "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, " ": 4, "bc": 5}}})");
  write("tokenizer_config.json",
        {{"chat_template",
          "{{ messages[0] }}{% generation %}{{ messages[1] }}{% endgeneration %}"
          "{{ messages[2] }}"}});
  const auto tokenizer = open();
  const auto mask = [&](const Json& parts) { return tokenizer->encode_chat(parts).generated; };
  EXPECT_EQ(mask({"a", "b", "c"}), (std::vector<bool>{true, true}));
  EXPECT_EQ(mask({"c", "b", "c"}), (std::vector<bool>{false, true}));
  EXPECT_EQ(mask({"<s>", " a", "c"}), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(mask({"c", "a<s>", " c"}), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(mask({"ca", "", "c"}), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(mask({"c", "", ""}), (std::vector<bool>{false}));
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
