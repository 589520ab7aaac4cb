// Text from ids that arrive one at a time is the text of all of them, and never half a character.
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

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

TEST(StreamDecoder, NeedsATokenizer) {
  EXPECT_THROW(StreamDecoder{nullptr}, c10::Error);
}

}  // namespace
}  // namespace reprise
