// tokenizer.model: what Llama's and ChatGLM's configurations mean, and files that are no models.
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "support/fixtures.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// A folder with a tokenizer.model, removed at the end.
class ModelFolder {
 public:
  explicit ModelFolder(std::string_view model, const Json& config = Json::object()) {
    fs::create_directories(path_);
    std::ofstream(path_ / "tokenizer.model", std::ios::binary) << model;
    std::ofstream(path_ / "tokenizer_config.json") << config;
  }
  ~ModelFolder() { fs::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ =
      fs::path(::testing::TempDir()) / ("reprise_spm_" + std::to_string(std::random_device{}()));
};

std::string fixture_model(const char* kind) {
  return read_file(testing::fixtures() / "tokenizers" / kind / "tokenizer.model");
}

TEST(SentencePiece, BeginAndEndTokensFollowTheConfiguration) {
  const ModelFolder folder(
      fixture_model("spm_llama"),
      {{"add_bos_token", false}, {"add_eos_token", true}, {"eos_token", "</s>"}});
  const auto tokenizer = Tokenizer::open(folder.path());
  const TokenIds ids = tokenizer->encode("the").ids;
  EXPECT_NE(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
  EXPECT_EQ(tokenizer->encode("the", {.max_length = 1}).ids, (TokenIds{2}));
  EXPECT_EQ(tokenizer->special_tokens().eos, 2);
}

TEST(SentencePiece, LegacyPutsASpaceBeforeEveryPart) {
  const std::string text = "<s>the";
  const ModelFolder legacy(fixture_model("spm_llama"), {{"add_bos_token", false}});
  const ModelFolder modern(fixture_model("spm_llama"),
                           {{"add_bos_token", false}, {"legacy", false}});
  const auto old_ids = Tokenizer::open(legacy.path())->encode(text).ids;
  const auto new_ids = Tokenizer::open(modern.path())->encode(text).ids;
  EXPECT_EQ(old_ids.front(), 1);
  EXPECT_EQ(new_ids.front(), 1);
  EXPECT_NE(old_ids, new_ids);
  EXPECT_EQ(Tokenizer::open(legacy.path())->token_of(old_ids[1])->substr(0, 3), "▁");
}

TEST(SentencePiece, ChatGlmPutsItsPrefixBeforeTheText) {
  const auto tokenizer = Tokenizer::open(testing::fixtures() / "tokenizers" / "chatglm");
  const int64_t mask = *tokenizer->id_of("[gMASK]");
  const int64_t start = *tokenizer->id_of("sop");
  EXPECT_EQ(start, mask + 2);
  EXPECT_EQ(*tokenizer->id_of("<|observation|>"), mask + 7);
  const TokenIds ids = tokenizer->encode("the").ids;
  EXPECT_EQ(TokenIds(ids.begin(), ids.begin() + 2), (TokenIds{mask, start}));
  EXPECT_EQ(tokenizer->encode("[gMASK]sop", {.add_special_tokens = false}).ids,
            (TokenIds{mask, start}));
}

TEST(SentencePiece, ChatGlmLeavesSopInWordsAlone) {
  const auto tokenizer = Tokenizer::open(testing::fixtures() / "tokenizers" / "chatglm");
  for (const int64_t id :
       tokenizer->encode("philosophy of people", {.add_special_tokens = false}).ids) {
    EXPECT_FALSE(tokenizer->is_special(id));
  }
}

TEST(SentencePiece, RefusesFilesThatAreNoModels) {
  for (const std::string& bytes : {std::string(),
                                   std::string("not a model"),
                                   std::string("\x0A\xFF\xFF\xFF\xFF\x0F", 6),
                                   std::string("\x0A\x00", 2),
                                   fixture_model("spm_llama").substr(0, 4000)}) {
    const ModelFolder folder(bytes);
    EXPECT_THROW(Tokenizer::open(folder.path()), c10::Error);
  }
}

TEST(SentencePiece, RefusesAPieceWithAZeroByte) {
  const ModelFolder folder(std::string("\x0A\x09\x0A\x05<unk>\x18\x02\x0A\x04\x0A\x02\x00s", 17));
  try {
    Tokenizer::open(folder.path());
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("zero byte"), std::string::npos) << error.what();
  }
}

/// A field of a protobuf message that holds bytes.
std::string field(char number, const std::string& bytes) {
  std::string length;
  size_t rest = bytes.size();
  for (; rest >= 0x80; rest >>= 7) {
    length += static_cast<char>((rest & 0x7F) | 0x80);
  }
  return static_cast<char>(number << 3 | 2) + length + static_cast<char>(rest) + bytes;
}

/// A model whose character map has this first unit, 255 empty ones and one replacement.
std::string model_with_root(uint32_t root) {
  std::string map(4 + 1024 + 1, '\0');
  map[1] = 4;  // 1024 bytes of trie
  std::memcpy(map.data() + 4, &root, sizeof root);
  return field(1, field(1, "<unk>") + "\x18\x02") + field(1, field(1, "a")) +
         field(3, field(2, map));
}

TEST(SentencePiece, RefusesACharacterMapThatPointsOutsideItself) {
  const ModelFolder good(model_with_root(0), {{"add_bos_token", false}});
  EXPECT_NO_THROW(Tokenizer::open(good.path())->encode("a", {.add_special_tokens = false}));
  for (const uint32_t root : {0x00040000U, 0x80040000U, 0x7FFFFC00U}) {
    const ModelFolder folder(model_with_root(root));
    try {
      Tokenizer::open(folder.path());
      FAIL() << root;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("outside itself"), std::string::npos)
          << error.what();
    }
  }
}

TEST(SentencePiece, ASpecialTokenOutsideTheVocabularyIsNamedWithItsFile) {
  const ModelFolder folder(fixture_model("spm_llama"), {{"bos_token", "<nowhere>"}});
  try {
    Tokenizer::open(folder.path());
    FAIL();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    const std::string file = (folder.path() / "tokenizer_config.json").string();
    EXPECT_NE(message.find(file + ": field bos_token"), std::string::npos) << message;
    EXPECT_NE(message.find("<nowhere>"), std::string::npos) << message;
  }
}

TEST(SentencePiece, ManyAddedTokensAreReadInLinearTime) {
  const ModelFolder folder(fixture_model("spm_llama"), Json::object());
  const int64_t before = Tokenizer::open(folder.path())->size();
  constexpr int64_t kCount = 100'000;
  std::string added = "{";
  for (int64_t i = 0; i < kCount; ++i) {
    added += (i > 0 ? ",\"<added " : "\"<added ") + std::to_string(i) +
             ">\": " + std::to_string(before + i);
  }
  write_file(folder.path() / "added_tokens.json", added + "}");
  EXPECT_EQ(Tokenizer::open(folder.path())->size(), before + kCount);
}

TEST(SentencePiece, DamagedModelsAreRefusedOrWork) {
  for (const char* kind : {"spm_llama", "spm_unigram"}) {
    const std::string good = fixture_model(kind);
    std::mt19937 random(1);
    size_t refused = 0;
    for (int trial = 0; trial < 300; ++trial) {
      std::string bad = good;
      for (int change = 0; change < 3; ++change) {
        bad[random() % bad.size()] = static_cast<char>(random());
      }
      const ModelFolder folder(bad);
      try {
        Tokenizer::open(folder.path())->encode("The quick ﬁx … of 漢字");
      } catch (const c10::Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 0U);
  }
}

}  // namespace
}  // namespace reprise
