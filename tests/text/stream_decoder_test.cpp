// Text from ids that arrive one at a time is the text of all of them, and never half a character.
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "support/fixtures.h"

namespace reprise {
namespace {

class StreamDecoding : public ::testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ =
      Tokenizer::open(testing::fixtures() / "tokenizers" / GetParam());
};

TEST_P(StreamDecoding, PartsJoinToTheWhole) {
  std::istringstream lines(read_file(testing::fixtures() / "tokenizers" / "texts.jsonl"));
  size_t texts = 0;
  for (std::string line; std::getline(lines, line) && texts < 400; ++texts) {
    const std::string text = parse_json(line, "texts.jsonl").get<std::string>();
    const TokenIds ids = tokenizer_->encode(text).ids;
    StreamDecoder decoder(tokenizer_);
    std::string streamed;
    for (const int64_t id : ids) {
      streamed += decoder.push(id);
    }
    streamed += decoder.finish();
    EXPECT_EQ(streamed, tokenizer_->decode(ids, true)) << text;
  }
}

TEST_P(StreamDecoding, NeverHandsOutHalfACharacter) {
  StreamDecoder decoder(tokenizer_);
  for (const int64_t id : tokenizer_->encode("a 👨‍👩‍👧 漢字 ü").ids) {
    EXPECT_EQ(decoder.push(id).find("\uFFFD"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         StreamDecoding,
                         ::testing::Values("gpt2", "llama3", "qwen2", "llama2", "spm_llama"),
                         [](const auto& test) { return std::string(test.param); });

TEST(StreamDecoder, DoesNotWaitForeverForBytesThatAreNoText) {
  const auto tokenizer = Tokenizer::open(testing::fixtures() / "tokenizers" / "gpt2");
  const auto lone = tokenizer->id_of("\u0127");  // a continuation byte in the byte alphabet
  ASSERT_TRUE(lone);
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += decoder.push(*lone);
  }
  EXPECT_NE(text.find("\uFFFD"), std::string::npos);
}

/// Ids are characters; 0 is special. Counts what it is asked to decode.
class CountingTokenizer final : public Tokenizer {
 public:
  Encoding encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens) const override {
    decoded += ids.size();
    std::string text;
    for (const int64_t id : ids) {
      if (id < size() && !(skip_special_tokens && id == 0)) {
        text += static_cast<char>(id);
      }
    }
    return text;
  }
  int64_t size() const override { return 128; }
  std::optional<int64_t> id_of(std::string_view) const override { return std::nullopt; }
  std::optional<std::string> token_of(int64_t id) const override {
    return id < size() ? std::optional(std::string(1, static_cast<char>(id))) : std::nullopt;
  }
  bool is_special(int64_t id) const override { return id == 0; }

  mutable size_t decoded = 0;
};

TEST(StreamDecoder, IdsWithoutTextDoNotPileUp) {
  const auto tokenizer = std::make_shared<CountingTokenizer>();
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push('a'), "a");
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(decoder.push(0), "");    // special
    EXPECT_EQ(decoder.push(500), "");  // no token has this id
  }
  EXPECT_EQ(decoder.push('b'), "b");
  EXPECT_LT(tokenizer->decoded, 10U);
}

TEST(StreamDecoder, NeedsATokenizer) {
  EXPECT_THROW(StreamDecoder{nullptr}, c10::Error);
}

}  // namespace
}  // namespace reprise
