// Split patterns of a tokenizer.json: those of real tokenizers take long texts of every kind, and
// one whose work grows faster than the text is an error that names the file and the pattern.
#include "support/fixtures.h"

#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

constexpr size_t kMegabyte = 1'000'000;

std::string repeated(const std::string& text, size_t bytes) {
  std::string result;
  while (result.size() < bytes) {
    result += text;
  }
  return result;
}

/// A tokenizer that knows every byte, and splits at the matches of a pattern.
std::shared_ptr<const Tokenizer> split_at(const Json& pattern) {
  const Json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}}},
      {"post_processor", nullptr},
      {"decoder", nullptr},
      {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", {{"?", 0}}}}}};
  return Tokenizer::from_json(tokenizer.dump(), "folder/tokenizer.json");
}

size_t pieces(const std::string& pattern, const std::string& text) {
  return split_at({{"Regex", pattern}})->encode(text).ids.size();
}

std::string refusal(const std::string& pattern, const std::string& text) {
  try {
    return "no error, but " + std::to_string(pieces(pattern, text)) + " pieces";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

void expect_refused(const std::string& pattern, const std::string& text) {
  const std::string message = refusal(pattern, text);
  for (const std::string part :
       {"folder/tokenizer.json", "pre_tokenizer.pattern.Regex", "steps on a text"}) {
    EXPECT_NE(message.find(part), std::string::npos) << pattern.substr(0, 50) << ": " << message;
  }
  EXPECT_NE(message.find("\"" + pattern.substr(0, 300)), std::string::npos) << message;
}

const std::vector<std::string>& ordinary_patterns() {
  static const std::vector<std::string> patterns = {
      // GPT-2
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      // Llama 3, Qwen 2
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      // GPT-4o
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      // DeepSeek, Bloom and plain ones
      R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}]+)",
      R"( ?[^(\s|[.,!?…。，、।۔،])]+)",
      R"(\d{1,3}(?=(?:\d{3})*\b))",
      R"(\w+|[^\w\s]+)"};
  return patterns;
}

TEST(RegexLimits, OrdinaryPatternsTakeAMegabyteOfAnything) {
  std::vector<std::string> texts = {
      repeated("The quick brown fox, who'd jumped over 13 lazy dogs in 1999, isn't here.\n\n  ",
               kMegabyte),
      repeated(" ", kMegabyte) + "x",
      repeated("a", kMegabyte),
      repeated("天地玄黄宇宙洪荒。", kMegabyte)};
  for (const char* part : {" ", "\n", " \n", "A", "Aa", "1 ", "a1", "!a", "'", "e\u0301\u0302"}) {
    texts.push_back(repeated(part, kMegabyte / 10));
  }
  texts.push_back(repeated("1", 500));  // a number
  for (const std::string& pattern : ordinary_patterns()) {
    for (const std::string& text : texts) {
      const std::string message = refusal(pattern, text);
      EXPECT_EQ(message.find("no error"), 0U) << text.substr(0, 12) << ": " << message;
    }
  }
}

TEST(RegexLimits, APatternOfQuadraticWorkIsRefusedByName) {
  const std::string letters = repeated("a", kMegabyte / 10);
  for (const std::string pattern : {"a*b|a",  // scans to the end from every start
                                    "a*+b|a",
                                    "[^b]*b|.",
                                    "a(?=.*b)|a",
                                    "(?<=a)a*b|a",
                                    "(?:a|b)*c|a",
                                    "(?:aa?)*+c|a",
                                    "a{3,}c|a",
                                    "a+?c|a"}) {
    expect_refused(pattern, letters);
  }
  expect_refused("\\s*\\S+\\s*", repeated(" ", kMegabyte / 10));
  expect_refused("\\s+$|\\s", repeated(" ", kMegabyte / 10) + "x");
  expect_refused("\\Xb|.", "a" + repeated("\u0301", kMegabyte / 10));
  expect_refused("(.*)\\1x|.", letters);
  expect_refused("(?<w>.*)\\k<w>x|.", letters);
}

TEST(RegexLimits, APatternOfExponentialWorkIsRefusedByName) {
  // The rest defeats shortcuts by length, and by a letter that must occur.
  const std::string letters = repeated("a", 60) + repeated("c", 100) + "b";
  for (const std::string pattern : {"(?:a|a)*b",
                                    "(a+)+b|a",
                                    "a+*b|a",
                                    "(?:a|a){61}",
                                    "(?:(?:a|a){2}){30}aa",
                                    "(?:a?){60}a{60}a"}) {
    expect_refused(pattern, letters);
  }
  expect_refused(repeated("(?:a|a)", 420) + "b", letters);
}

TEST(RegexLimits, ALongPatternCostsMoreForEachStart) {
  std::string pattern;
  for (int i = 0; pattern.size() < 30'000; ++i) {
    pattern += "ab" + std::to_string(i) + "|";
  }
  expect_refused(pattern + "(?:x)|a", repeated("a", kMegabyte / 10) + "b");
}

TEST(RegexLimits, CountingDoesNotChangeWhatMatches) {
  const auto count = [](const std::string& pattern, const std::string& text) {
    return pieces(pattern, text);
  };
  EXPECT_EQ(count(R"((a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)(l)\12)", "xabcdefghijkllx"), 3U);
  EXPECT_EQ(count(R"((?<n>ab)\k<n>+)", "xabababy"), 3U);
  EXPECT_EQ(count(R"((ab)\1{2})", "abababab"), 2U);
  EXPECT_EQ(count("a+*", "baaab"), 3U);
  EXPECT_EQ(count("(?:ab)?+c", "ababc"), 2U);
  EXPECT_EQ(count("(?i)A|b", "aBc"), 3U);
  EXPECT_EQ(count("a{b", "xa{b"), 2U);
  EXPECT_EQ(count("(a){b", "xa{b"), 2U);
  EXPECT_EQ(count("(?<=(?:ab))c", "abc"), 2U);
}

TEST(RegexLimits, ALongStringIsSearchedInLinearTime) {
  const std::string wanted = repeated("a", kMegabyte / 2) + "b";
  const auto tokenizer = split_at({{"String", wanted}});
  EXPECT_EQ(tokenizer->encode(repeated("a", kMegabyte)).ids.size(), 1U);
  EXPECT_EQ(tokenizer->encode(wanted + wanted).ids.size(), 2U);
}

}  // namespace
}  // namespace reprise
