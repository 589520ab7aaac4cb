// JSON from files we did not write: what is accepted, and what the errors say.
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::testing {
namespace {

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"z":1,"a":[true,null,-2,1.5,"x"],"m":{}})", "test").dump(),
            R"({"z":1,"a":[true,null,-2,1.5,"x"],"m":{}})");
}

TEST(Json, AcceptsAnyValueAtTheTop) {
  EXPECT_EQ(parse_json(" 7 ", "test"), Json(7));
  EXPECT_EQ(parse_json("\"\\u00e9\"", "test"), Json("é"));
  EXPECT_TRUE(parse_json("null", "test").is_null());
}

struct BadText {
  std::string text;
  std::string message;
};

TEST(Json, ErrorsNameSourceLineAndColumn) {
  const std::vector<BadText> cases = {
      {"{\n  \"a\": 1,\n  \"b\" 2\n}", "file.json:3:7: "},
      {"", "file.json:1:1: "},
      {"[1, 2", "file.json:1:6: "},
      {"{} x", "file.json:1:4: "},
      {"[1,]", "file.json:1:4: "},
      {"{\"a\":1,\n\"b\":2,\"a\":3}", "file.json:2:9: the key \"a\" appears twice in one object"},
      {"[{\"a\":{\"b\":1,\"b\":1}}]", "the key \"b\" appears twice"},
      {"\"\xff\"", "file.json:1:2: "},
      {"\"\xed\xa0\x80\"", "file.json:1:3: "},
      {std::string("{}\0", 3), "file.json:1:3: a zero byte"},
      {"[1e999]", "file.json:1:"},
      {"[NaN]", "file.json:1:2: "},
      {"\"\\ud800\"", "file.json:1:"},
      {"// note\n1", "file.json:1:1: "},
  };
  for (const BadText& bad : cases) {
    SCOPED_TRACE(bad.text);
    expect_error([&] { parse_json(bad.text, "file.json"); }, bad.message);
  }
}

TEST(Json, MayHaveSoManyValuesAndNoMore) {
  const std::string text = R"({"a":[1,""],"b":{}})";  // five, with itself
  EXPECT_EQ(error_of([&] { parse_json(text, "test", {.max_values = 5}); }), "");
  expect_error([&] { parse_json(text, "test", {.max_values = 4}); }, ": more than 4 values");
  expect_error([&] { parse_json(text, "test", {.max_values = 1}); },
               "test:1:10: more than 1 values");
}

TEST(Json, SameKeyInDifferentObjectsIsNoDuplicate) {
  EXPECT_EQ(error_of([] { parse_json(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})", "test"); }), "");
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(error_of([&] { parse_json(nested(100), "test"); }), "");
  expect_error([&] { parse_json(nested(101), "test"); }, "test:1:101: nested more than 100 deep");
  expect_error([&] { parse_json(std::string(10'000'000, '['), "test"); }, "nested more than 100");
  std::string objects;
  for (int i = 0; i < 200; ++i) {
    objects += "{\"a\":";
  }
  expect_error([&] { parse_json(objects, "test"); }, "nested more than 100 deep");
}

TEST(Json, LengthIsBounded) {
  const JsonLimits limits = {.max_bytes = 3};
  EXPECT_EQ(parse_json("123", "test", limits), Json(123));
  expect_error([&] { parse_json("1234", "test", limits); },
               "test: expected at most 3 bytes, found 4");
}

TEST(Json, ErrorsStayShortWhenTheTextIsLong) {
  const std::string message =
      error_of([] { parse_json("\"" + std::string(1'000'000, 'x') + "\n\"", "test"); });
  EXPECT_NE(message, "");
  EXPECT_LT(message.size(), 1000u);
}

TEST(Json, LargeObjectsTakeLinearTime) {
  // A quadratic parser needs minutes for this, the test runner kills it.
  std::string text = "{";
  for (int i = 0; i < 400'000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" + std::to_string(i);
  }
  const Json json = parse_json(text + "}", "test");
  EXPECT_EQ(json.size(), 400'000u);
  EXPECT_EQ(std::prev(json.end()).key(), "399999");
}

TEST(Json, WritesWhatItReads) {
  const TemporaryFolder folder;
  const Json json = parse_json(R"({"b":1e-05,"a":[],"text":"ä\n","t":10000.0})", "test");
  write_json(folder / "x.json", json);
  EXPECT_EQ(read_file(folder / "x.json"),
            "{\n  \"b\": 1e-05,\n  \"a\": [],\n  \"text\": \"ä\\n\",\n  \"t\": 10000.0\n}\n");
  EXPECT_EQ(read_json(folder / "x.json"), json);
}

TEST(Json, RefusesToWriteWhatIsNotUtf8) {
  const TemporaryFolder folder;
  expect_error([&] { write_json(folder / "x.json", Json("\xff")); }, "cannot write");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Json, KindsAreSaidInWords) {
  EXPECT_EQ(kind_of(parse_json("[]", "test")), "an array");
  EXPECT_EQ(kind_of(parse_json("{}", "test")), "an object");
  EXPECT_EQ(kind_of(parse_json("\"x\"", "test")), "a string");
  EXPECT_EQ(kind_of(parse_json("null", "test")), "null");
  EXPECT_EQ(kind_of(parse_json("-3", "test")), "the integer -3");
  EXPECT_EQ(kind_of(parse_json("true", "test")), "true");
}

}  // namespace
}  // namespace reprise::testing
