// Byte-pair encoding and its training: speed where a simple way would be quadratic, determinism,
// and tokenizers that read back what they wrote.
#include <reprise/io/file.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/fixtures.h"

namespace reprise {
namespace {

std::string corpus() {
  return read_file(testing::fixtures() / "tokenizers" / "texts.jsonl");
}

TEST(Bpe, AWordOfAMegabyteIsNotQuadratic) {
  const auto tokenizer = Tokenizer::open(testing::fixtures() / "tokenizers" / "gpt2");
  const auto start = std::chrono::steady_clock::now();
  const Encoding encoding = tokenizer->encode(std::string(1 << 20, 'a'));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_GT(encoding.ids.size(), 1000U);
  EXPECT_LT(taken.count(), 20.0);  // 0.3 s here; quadratic would take an hour
}

TEST(Bpe, ThreadsShareATokenizer) {
  const auto tokenizer = Tokenizer::open(testing::fixtures() / "tokenizers" / "llama3");
  const std::string text = corpus().substr(0, 20000);
  const std::string valid = text.substr(0, text.rfind('\n'));
  const TokenIds expected = tokenizer->encode(valid).ids;
  std::vector<std::thread> threads;
  std::vector<TokenIds> results(4);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = tokenizer->encode(valid).ids; });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const TokenIds& ids : results) {
    EXPECT_EQ(ids, expected);
  }
}

TEST(Bpe, WordsOfOneModelAreNotThoseOfAnother) {
  const auto first = Tokenizer::open(testing::fixtures() / "tokenizers" / "gpt2");
  const auto second = Tokenizer::open(testing::fixtures() / "tokenizers" / "smollm");
  const TokenIds before = first->encode("The quick brown fox").ids;
  EXPECT_NE(second->encode("The quick brown fox").ids, before);
  EXPECT_EQ(first->encode("The quick brown fox").ids, before);
}

TEST(BpeTraining, GivesTheVocabularyAskedForAndIsDeterministic) {
  const std::string trained = train_bpe(corpus(), {.vocabulary = 600});
  EXPECT_EQ(trained, train_bpe(corpus(), {.vocabulary = 600}));
  EXPECT_EQ(Tokenizer::from_json(trained, "trained")->size(), 600);
}

TEST(BpeTraining, ReadsBackWhatItEncodes) {
  const auto tokenizer = Tokenizer::from_json(train_bpe(corpus(), {.vocabulary = 800}), "trained");
  const std::string text = "Hello wörld, 你好 👋🏽!\n\tdone";
  const TokenIds ids = tokenizer->encode(text).ids;
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_LT(ids.size(), text.size());
}

TEST(BpeTraining, MergesTheMostFrequentPairFirst) {
  const auto tokenizer = Tokenizer::from_json(
      train_bpe("abab abab abab cd", {.vocabulary = 260, .special_tokens = {}}), "trained");
  EXPECT_EQ(tokenizer->token_of(256), "ab");
  EXPECT_EQ(tokenizer->token_of(257), "abab");
  EXPECT_EQ(tokenizer->token_of(258), "\u0120abab");
  EXPECT_EQ(tokenizer->size(), 259);  // no other pair occurs twice
}

TEST(BpeTraining, SpecialTokensAreIdsAndNeverParts) {
  const std::string text = "x<|endoftext|>x<|endoftext|>x<|endoftext|>";
  const auto tokenizer = Tokenizer::from_json(train_bpe(text, {.vocabulary = 300}), "trained");
  EXPECT_EQ(tokenizer->size(), 257);  // nothing to merge
  EXPECT_EQ(tokenizer->id_of("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").ids, (TokenIds{0}));
}

TEST(BpeTraining, RefusesAVocabularyThatCannotHoldTheBytes) {
  EXPECT_THROW(train_bpe("a", {.vocabulary = 256}), c10::Error);
  EXPECT_THROW(train_bpe("a", {.special_tokens = {"<s>", "<s>"}}), c10::Error);
  EXPECT_THROW(train_bpe("\xFF", {}), c10::Error);
  EXPECT_EQ(Tokenizer::from_json(train_bpe("", {}), "trained")->size(), 257);
}

}  // namespace
}  // namespace reprise
