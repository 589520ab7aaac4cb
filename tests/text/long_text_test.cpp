// Long texts: without offsets they are tokenized part by part, which takes little memory and gives
// the same ids. Note [Long texts].
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

#include "support/fixtures.h"

namespace reprise::testing {
namespace {

constexpr size_t kLong = size_t{1} << 18;  // several parts

/// All texts of the fixtures, again and again, with a rest that moves them against the parts.
std::string long_text() {
  std::istringstream lines(read_file(fixtures() / "tokenizers" / "texts.jsonl"));
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    all += parse_json(line, "texts.jsonl").get<std::string>();
  }
  std::string text;
  for (size_t i = 0; text.size() < kLong; ++i) {
    text += all + std::string(i % 7, 'e');
  }
  return text;
}

class LongText : public ::testing::TestWithParam<const char*> {
 protected:
  void expect_the_same(const std::string& text) const {
    const TokenIds whole = tokenizer->encode(text).ids;
    EXPECT_EQ(tokenizer->encode(text, {.offsets = false}).ids, whole);
    for (const size_t limit : {size_t{1}, size_t{1000}, whole.size() - 1, whole.size()}) {
      const size_t wanted = std::min(limit, whole.size());  // bert has one token for a long word
      TokenIds found = tokenizer->encode(text, {.offsets = false, .wanted = wanted}).ids;
      ASSERT_GE(found.size(), wanted);
      found.resize(wanted);
      EXPECT_EQ(found,
                TokenIds(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(wanted)));
    }
    const EncodeOptions cut{.max_length = 100};
    EncodeOptions cut_ids = cut;
    cut_ids.offsets = false;
    EXPECT_EQ(tokenizer->encode(text, cut_ids).ids, tokenizer->encode(text, cut).ids);
  }

  std::shared_ptr<const Tokenizer> tokenizer =
      Tokenizer::open(fixtures() / "tokenizers" / GetParam());
};

TEST_P(LongText, GivesTheSameIdsInParts) {
  expect_the_same(long_text());
}

TEST_P(LongText, OfOneWordGivesTheSameIdsInParts) {
  std::string word;
  while (word.size() < kLong) {
    word += "aaabcdefgheee";
  }
  expect_the_same(word);
}

INSTANTIATE_TEST_SUITE_P(All,
                         LongText,
                         ::testing::Values("bert",
                                           "chatglm",
                                           "clip",
                                           "deepseek",
                                           "gpt2",
                                           "gpt4o",
                                           "llama2",
                                           "llama3",
                                           "mistral",
                                           "odd",
                                           "pythia",
                                           "qwen2",
                                           "roberta",
                                           "smollm",
                                           "spm_llama",
                                           "t5"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace reprise::testing
