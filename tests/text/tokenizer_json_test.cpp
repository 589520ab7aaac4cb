// tokenizer.json: what its fields mean, one at a time, and that what we cannot do is refused by
// name.
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

/// A tokenizer over single letters and the merge a+b, with fields put over the defaults.
Json tokenizer_with(const Json& fields) {
  Json tokenizer = parse_json(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "unk_token": "?", "vocab":
      {"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, " ": 5, "X": 6, "abc": 7},
      "merges": ["a b"]}})",
                              "test");
  for (const auto& [key, value] : fields.items()) {
    tokenizer[key] = value;
  }
  return tokenizer;
}

std::shared_ptr<const Tokenizer> open(const Json& fields) {
  return Tokenizer::from_json(tokenizer_with(fields).dump(), "test.json");
}

std::string refusal(const Json& fields) {
  try {
    open(fields);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "not refused";
}

void expect_refusal(const Json& fields, const std::vector<std::string>& words) {
  const std::string message = refusal(fields);
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << word << " is not in: " << message;
  }
}

TEST(TokenizerJson, RefusesUnknownTypesByFileFieldAndValue) {
  expect_refusal({{"normalizer", {{"type", "Rot13"}}}}, {"test.json", "normalizer.type", "Rot13"});
  expect_refusal({{"pre_tokenizer", {{"type", "UnicodeScripts"}}}},
                 {"test.json", "pre_tokenizer.type", "UnicodeScripts"});
  expect_refusal({{"post_processor", {{"type", "Odd"}}}}, {"post_processor.type", "Odd"});
  expect_refusal({{"decoder", {{"type", "CTC"}}}}, {"decoder.type", "CTC"});
  expect_refusal({{"model", {{"type", "Markov"}}}}, {"model.type", "Markov"});
  expect_refusal(
      {{"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digits"}}}}}}},
      {"pre_tokenizer.pretokenizers[0].individual_digits", "missing"});
}

TEST(TokenizerJson, RefusesAnotherVersion) {
  expect_refusal({{"version", "2.0"}}, {"version", "2.0"});
}

TEST(TokenizerJson, RefusesDropoutBecauseIdsMustNotBeRandom) {
  Json model = tokenizer_with({})["model"];
  model["dropout"] = 0.1;
  expect_refusal({{"model", model}}, {"model.dropout", "0.1"});
  model["dropout"] = nullptr;
  EXPECT_NO_THROW(open({{"model", model}}));
}

TEST(TokenizerJson, RefusesMergesOfTokensThatAreNotInTheVocabulary) {
  Json model = tokenizer_with({})["model"];
  model["merges"] = Json::array({"a z"});
  expect_refusal({{"model", model}}, {"model.merges[0]", "\"az\""});
  model["merges"] = Json::array({"a b c"});
  expect_refusal({{"model", model}}, {"model.merges[0]", "left right"});
  model["merges"] = Json::array({Json::array({"a", 3})});
  expect_refusal({{"model", model}}, {"model.merges[0]"});
}

TEST(TokenizerJson, RefusesIdsThatAreNotIds) {
  Json model = tokenizer_with({})["model"];
  for (const Json& id : {Json(-1), Json(1.5), Json("1"), Json(uint64_t{1} << 40)}) {
    model["vocab"]["z"] = id;
    expect_refusal({{"model", model}}, {"model.vocab", "\"z\""});
  }
  model["vocab"]["z"] = 1;
  expect_refusal({{"model", model}}, {"\"z\"", "an id of its own", "\"a\""});
}

TEST(TokenizerJson, RefusesRegularExpressionsThatHaveNoEqual) {
  const auto split = [](const char* pattern) {
    return Json{{"pre_tokenizer",
                 {{"type", "Split"},
                  {"pattern", {{"Regex", pattern}}},
                  {"behavior", "Isolated"},
                  {"invert", false}}}};
  };
  expect_refusal(split("(a"), {"pre_tokenizer.pattern.Regex", "not closed"});
  expect_refusal(split("[a&&[^b]]"), {"&&"});
  expect_refusal(split("\\p{Klingon}"), {"Klingon"});
  expect_refusal(split("*"), {"quantifier"});
  expect_refusal(split("\\y"), {"\\y"});
  EXPECT_NO_THROW(open(split("(?i:'s|'t)|[^\\r\\n\\p{L}]?+\\p{L}++|\\s+(?!\\S)|x{2,3}+")));
}

TEST(TokenizerJson, ARegularExpressionThatNeverEndsIsAnError) {
  const auto tokenizer = open({{"pre_tokenizer",
                                {{"type", "Split"},
                                 {"pattern", {{"Regex", "(a|aa)+[bc][bd]"}}},
                                 {"behavior", "Isolated"},
                                 {"invert", false}}}});
  EXPECT_THROW(tokenizer->encode(std::string(60, 'a')), c10::Error);
}

TEST(TokenizerJson, RulesThatMultiplyTheTextAreAnError) {
  Json rules = Json::array();
  for (int i = 0; i < 40; ++i) {
    rules.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  const auto tokenizer = open({{"normalizer", {{"type", "Sequence"}, {"normalizers", rules}}}});
  EXPECT_THROW(tokenizer->encode("aaaa"), c10::Error);
}

TEST(TokenizerJson, RefusesTextThatIsNotUtf8) {
  EXPECT_THROW(open({})->encode("a\xC3"), c10::Error);
  EXPECT_THROW(open({})->encode("\xED\xA0\x80"), c10::Error);
}

TEST(TokenizerJson, MergesInBothSpellingsAreTheSame) {
  Json model = tokenizer_with({})["model"];
  model["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_EQ(open({{"model", model}})->encode("cab").ids, (TokenIds{3, 4}));
  EXPECT_EQ(open({})->encode("cab").ids, (TokenIds{3, 4}));
}

TEST(TokenizerJson, IgnoreMergesTakesWholeWords) {
  Json model = tokenizer_with({})["model"];
  EXPECT_EQ(open({{"model", model}})->encode("abc").ids, (TokenIds{4, 3}));
  model["ignore_merges"] = true;
  EXPECT_EQ(open({{"model", model}})->encode("abc").ids, (TokenIds{7}));
}

TEST(TokenizerJson, UnknownCharactersFuseOnlyWhenAsked) {
  Json model = tokenizer_with({})["model"];
  EXPECT_EQ(open({{"model", model}})->encode("aéüb").ids, (TokenIds{1, 0, 0, 2}));
  model["fuse_unk"] = true;
  EXPECT_EQ(open({{"model", model}})->encode("aéüb").ids, (TokenIds{1, 0, 2}));
}

TEST(TokenizerJson, AddedTokensTakeTheLongestAtTheLeftmostPlace) {
  const auto added = [](const char* content) {
    return Json{{"id", 0},
                {"content", content},
                {"single_word", false},
                {"lstrip", false},
                {"rstrip", false},
                {"normalized", false},
                {"special", true}};
  };
  const auto tokenizer = open({{"added_tokens", {added("<a>"), added("<a>b"), added("a><")}}});
  EXPECT_EQ(tokenizer->encode("c<a>b<a>a").ids, (TokenIds{3, 9, 8, 1}));
  EXPECT_EQ(tokenizer->size(), 11);
  EXPECT_TRUE(tokenizer->is_special(9));
  EXPECT_EQ(tokenizer->decode(TokenIds{1, 9, 2}, true), "a b");
  EXPECT_EQ(tokenizer->id_of("<a>b"), 9);
  EXPECT_EQ(tokenizer->token_of(10), "a><");
}

TEST(TokenizerJson, AddedTokensStripSpacesAndKeepToWords) {
  const Json strips = {{"id", 8},
                       {"content", "X"},
                       {"single_word", false},
                       {"lstrip", true},
                       {"rstrip", true},
                       {"normalized", false},
                       {"special", false}};
  Encoding encoding = open({{"added_tokens", Json::array({strips})}})->encode("a  X b");
  EXPECT_EQ(encoding.ids, (TokenIds{1, 6, 2}));
  EXPECT_EQ(encoding.offsets[1], (std::pair<size_t, size_t>{1, 5}));
  Json word = strips;
  word["single_word"] = true;
  encoding = open({{"added_tokens", Json::array({word})}})->encode("aXb X");
  EXPECT_EQ(encoding.ids.back(), 6);
  EXPECT_EQ(encoding.offsets.back(), (std::pair<size_t, size_t>{3, 5}));
}

TEST(TokenizerJson, TruncationSectionAppliesUntilTheCallSaysOtherwise) {
  const Json post = parse_json(
      R"({"type": "TemplateProcessing",
          "single": [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
          "pair": [], "special_tokens": {"X": {"id": "X", "ids": [6], "tokens": ["X"]}}})",
      "test");
  Json truncation = {
      {"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Right"}};
  auto tokenizer = open({{"truncation", truncation}, {"post_processor", post}});
  EXPECT_EQ(tokenizer->encode("cccc").ids, (TokenIds{6, 3, 3}));
  EXPECT_EQ(tokenizer->encode("aaca", {.add_special_tokens = false}).ids, (TokenIds{1, 1, 3}));
  EXPECT_EQ(tokenizer->encode("cccc", {.max_length = SIZE_MAX}).ids.size(), 5U);
  EXPECT_EQ(tokenizer->encode("cccc", {.max_length = 2}).ids, (TokenIds{6, 3}));
  EXPECT_THROW(tokenizer->encode("cccc", {.max_length = 0}), c10::Error);
  truncation["direction"] = "Left";
  tokenizer = open({{"truncation", truncation}, {"post_processor", post}});
  EXPECT_EQ(tokenizer->encode("aaca").ids, (TokenIds{6, 3, 1}));
  truncation["direction"] = "Up";
  expect_refusal({{"truncation", truncation}}, {"truncation.direction", "Up"});
}

TEST(TokenizerJson, DecodersDoNotMultiplyTheText) {
  const Json doubles = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto nested = [&](size_t count) {
    Json sequence = {{"type", "Sequence"}, {"decoders", Json::array()}};
    for (size_t i = 0; i < count; ++i) {
      sequence["decoders"].push_back(doubles);
    }
    return Json{{"type", "Sequence"}, {"decoders", {sequence}}};
  };
  EXPECT_EQ(open({{"decoder", nested(3)}})->decode(TokenIds{1}), "aaaaaaaa");
  const auto tokenizer = open({{"decoder", nested(40)}});
  try {
    tokenizer->decode(TokenIds{1});
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("grow it too much"), std::string::npos)
        << error.what();
  }
}

TEST(TokenizerJson, ATemplateNamesTheTextOnce) {
  const Json twice = {{"type", "TemplateProcessing"},
                      {"single", {{{"Sequence", {{"id", "A"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                      {"special_tokens", Json::object()}};
  expect_refusal({{"post_processor", twice}}, {"post_processor.single", "one Sequence"});
}

TEST(TokenizerJson, OffsetsPointIntoTheOriginalThroughNormalization) {
  const auto tokenizer = open({{"normalizer", {{"type", "NFKC"}}}});
  // U+FB03 becomes three characters, "e" with U+0301 one (which has the place of the "e", as in the
  // library).
  const Encoding encoding = tokenizer->encode("a\uFB03be\u0301c");
  const std::vector<std::pair<size_t, size_t>> expected = {
      {0, 1}, {1, 4}, {1, 4}, {1, 4}, {4, 5}, {5, 6}, {8, 9}};
  EXPECT_EQ(encoding.offsets, expected);
}

}  // namespace
}  // namespace reprise
