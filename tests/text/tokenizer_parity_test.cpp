// Every kind of tokenizer that real models ship, on every text of the fixtures: the ids, the
// decoded text and the offsets that Hugging Face's libraries gave (generate_tokenizers.py wrote
// them down).
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/fixtures.h"

namespace reprise {
namespace {

constexpr size_t kGroup = 16;
constexpr uint64_t kStart = 0xCBF29CE484222325;

uint64_t fnv1a(std::string_view bytes, uint64_t value) {
  for (const char byte : bytes) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  }
  return value;
}

template <typename Numbers>
uint64_t hash_numbers(const Numbers& numbers, uint64_t value) {
  std::string bytes;
  for (const auto number : numbers) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>((static_cast<uint64_t>(number) >> shift) & 0xFF);
    }
  }
  return fnv1a(bytes + "\xFF\xFF\xFF\xFF", value);
}

std::string hex(uint64_t value) {
  std::ostringstream text;
  text << std::hex;
  text.width(16);
  text.fill('0');
  text << value;
  return text.str();
}

std::vector<std::string> read_texts() {
  std::vector<std::string> texts;
  std::istringstream lines(read_file(testing::fixtures() / "tokenizers" / "texts.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    texts.push_back(parse_json(line, "texts.jsonl").get<std::string>());
  }
  return texts;
}

class TokenizerParity : public ::testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path folder_ = testing::fixtures() / "tokenizers";
  const std::vector<std::string> texts_ = read_texts();
  const Json expected_ = read_json(folder_ / "expected" / (std::string(GetParam()) + ".json"));
  const std::shared_ptr<const Tokenizer> tokenizer_ = Tokenizer::open(folder_ / GetParam());
};

TEST_P(TokenizerParity, IdsAreEqualOnEveryText) {
  ASSERT_GE(texts_.size(), 2000U);
  ASSERT_EQ(expected_["ids"].size(), texts_.size());
  size_t equal = 0;
  for (size_t i = 0; i < texts_.size(); ++i) {
    const TokenIds ids = tokenizer_->encode(texts_[i]).ids;
    const TokenIds plain = tokenizer_->encode(texts_[i], {.add_special_tokens = false}).ids;
    const std::string hash = hex(hash_numbers(plain, hash_numbers(ids, kStart)));
    if (i < expected_["full"].size()) {
      EXPECT_EQ(ids, expected_["full"][i].get<TokenIds>()) << "text " << i << ": " << texts_[i];
    }
    EXPECT_EQ(hash, expected_["ids"][i].get<std::string>()) << "text " << i << ": " << texts_[i];
    equal += hash == expected_["ids"][i].get<std::string>() ? 1 : 0;
  }
  EXPECT_EQ(equal, texts_.size());
}

TEST_P(TokenizerParity, DecodedTextAndOffsetsAreEqual) {
  uint64_t hash = kStart;
  for (size_t i = 0; i < texts_.size(); ++i) {
    const Encoding encoding = tokenizer_->encode(texts_[i]);
    for (const bool skip : {false, true}) {
      hash = fnv1a(tokenizer_->decode(encoding.ids, skip) + "\xFF", hash);
    }
    std::vector<size_t> places;
    for (const auto& [begin, end] : encoding.offsets) {
      places.insert(places.end(), {begin, end});
    }
    hash = hash_numbers(places, hash);
    if ((i + 1) % kGroup == 0 || i + 1 == texts_.size()) {
      EXPECT_EQ(hex(hash), expected_["decoded_and_offsets"][i / kGroup].get<std::string>())
          << "texts " << i / kGroup * kGroup << " to " << i;
      hash = kStart;
    }
  }
}

TEST_P(TokenizerParity, OffsetsLieInTheTextAndAscend) {
  for (const std::string& text : texts_) {
    const Encoding encoding = tokenizer_->encode(text, {.add_special_tokens = false});
    ASSERT_EQ(encoding.ids.size(), encoding.offsets.size());
    size_t last = 0;
    for (const auto& [begin, end] : encoding.offsets) {
      ASSERT_LE(begin, end) << text;
      ASSERT_LE(end, text.size()) << text;
      ASSERT_LE(last, begin + 4) << text;  // bytes of one character share its place
      last = begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         TokenizerParity,
                         ::testing::Values("gpt2",
                                           "roberta",
                                           "llama3",
                                           "qwen2",
                                           "gpt4o",
                                           "smollm",
                                           "pythia",
                                           "deepseek",
                                           "llama2",
                                           "mistral",
                                           "bert",
                                           "clip",
                                           "odd",
                                           "gemma",
                                           "phi4",
                                           "glm4",
                                           "tekken",
                                           "cohere2",
                                           "falcon",
                                           "bloom",
                                           "opt",
                                           "codegen",
                                           "t5",
                                           "spm_llama",
                                           "spm_mistral",
                                           "spm_unigram",
                                           "chatglm"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace reprise
