// Data files as people have them: lines and arrays, compressed or not, whole or broken.
#include "data/gzip_bytes.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include "data/files/row_reader.h"

#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using data::RowReader;

struct Row {
  int64_t line = 0;
  Json value;
};

/// Reads and parses the next row; an error names the file and the line.
std::optional<Row> next_row(RowReader& reader) {
  const auto text = reader.next_text();
  if (!text) {
    return std::nullopt;
  }
  try {
    return Row{.line = text->line, .value = text->parse()};
  } catch (const c10::Error& error) {
    TORCH_CHECK(
        false, "[data] ", reader.location(text->line), ": ", error.what_without_backtrace());
  }
}

using NumberedRows = std::vector<std::pair<int64_t, std::string>>;

/// The rows of a file with this content, each as its line and its JSON.
NumberedRows rows_of(const std::string& content, size_t longest_row = RowReader::kLongestRow) {
  const TemporaryFolder folder;
  write_file(folder / "rows", content);
  RowReader reader(folder / "rows", longest_row);
  NumberedRows rows;
  while (auto row = next_row(reader)) {
    rows.emplace_back(row->line, row->value.dump());
  }
  EXPECT_EQ(reader.fraction(), 1.0);
  return rows;
}

void expect_broken(const std::string& content, const std::string& part) {
  expect_error([&] { rows_of(content); }, part);
}

/// More than any buffer in the reader holds.
std::string many_lines(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    text += "{\"i\": " + std::to_string(i) + ", \"t\": \"" + std::string(50, 'x') + "\"}\n";
  }
  return text;
}

TEST(RowReader, ReadsLinesWithTheNumbersAnEditorShows) {
  EXPECT_EQ(rows_of("{\"a\": 1}\n\n  \t\n[2]\n3"),
            (NumberedRows{{1, "{\"a\":1}"}, {4, "[2]"}, {5, "3"}}));
  EXPECT_EQ(rows_of("\n\n{\"a\": 1}\n"), (NumberedRows{{3, "{\"a\":1}"}}));
}

TEST(RowReader, TakesAByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(rows_of("\xEF\xBB\xBF{\"a\": 1}\r\n\r\n{\"a\": 2}\r\n"),
            (NumberedRows{{1, "{\"a\":1}"}, {3, "{\"a\":2}"}}));
  EXPECT_EQ(rows_of("\xEF\xBB\xBF [1]"), (NumberedRows{{1, "1"}}));
}

TEST(RowReader, ReadsTheElementsOfAnArray) {
  EXPECT_EQ(rows_of(" \n[ {\"a\": [1, {\"b\": 2}]},\n \"x\" , 3\n]\n"),
            (NumberedRows{{1, "{\"a\":[1,{\"b\":2}]}"}, {2, "\"x\""}, {3, "3"}}));
}

TEST(RowReader, TakesNoMarkInAStringForTheEndOfAnElement) {
  EXPECT_EQ(rows_of(R"([{"a": "],}\"[{,"}, "\\", "\\\"]"])"),
            (NumberedRows{{1, R"({"a":"],}\"[{,"})"}, {2, R"("\\")"}, {3, R"("\\\"]")"}}));
}

TEST(RowReader, FindsNoRowsInAnEmptyFileOrArray) {
  for (const auto content : {"", "\n \n", "[]", "[ \n ]\n", "\xEF\xBB\xBF"}) {
    EXPECT_TRUE(rows_of(content).empty()) << content;
  }
}

TEST(RowReader, ReadsRowsThatCrossItsBuffers) {
  const std::string text = many_lines(30'000);
  const NumberedRows rows = rows_of(text);
  ASSERT_EQ(rows.size(), 30'000u);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].first, static_cast<int64_t>(i) + 1);
    ASSERT_TRUE(rows[i].second.starts_with("{\"i\":" + std::to_string(i) + ","));
  }
  std::string array = text;
  std::replace(array.begin(), array.end() - 1, '\n', ',');
  EXPECT_EQ(rows_of("[" + array + "]"), rows);
  EXPECT_EQ(rows_of(gzip_member(text)), rows);
}

TEST(RowReader, ReadsWhatGzipCompressed) {
  // printf '{"a": 1}\n{"a": 2}\n' | gzip -n
  const std::string bytes(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56\x4a\x54\xb2\x52\x30\xac\xe5\xaa\x06\x33\x8c"
      "\x6a\xb9\x00\xce\x32\xde\xc1\x12\x00\x00\x00",
      34);
  EXPECT_EQ(rows_of(bytes), (NumberedRows{{1, "{\"a\":1}"}, {2, "{\"a\":2}"}}));
}

TEST(RowReader, ReadsGzipMembersOneAfterTheOther) {
  // The second row begins in one member and ends in the next.
  const std::string bytes = gzip_member("1\n2") + gzip_member("") + gzip_member("2\n3\n");
  const NumberedRows expected = {{1, "1"}, {2, "22"}, {3, "3"}};
  EXPECT_EQ(rows_of(bytes), expected);
  EXPECT_EQ(rows_of(bytes + std::string(512, '\0')), expected);
}

TEST(RowReader, RefusesGzipThatIsCutOffAnywhere) {
  const std::string bytes = gzip_member("1\n") + gzip_member("2\n");
  for (size_t size = 2; size < bytes.size(); ++size) {
    if (size != bytes.size() / 2) {  // there the first member is whole
      expect_broken(bytes.substr(0, size), "the gzip stream ends early; the file is truncated");
    }
  }
}

TEST(RowReader, RefusesGzipThatWasAltered) {
  std::string bytes = gzip_member("1234\n");
  bytes[bytes.size() - 10] ^= 1;
  expect_broken(bytes, "broken gzip: incorrect data check");
  expect_broken(gzip_member("1\n") + "2\n", "broken gzip: incorrect header check");
}

TEST(RowReader, NamesFileAndLineOfARowThatIsNotJson) {
  const TemporaryFolder folder;
  write_file(folder / "rows.jsonl", "{\"a\": 1}\nhello\n{\"a\": 2}\n{\"a\": \n");
  RowReader reader(folder / "rows.jsonl");
  next_row(reader);
  const std::string name = (folder / "rows.jsonl").string();
  expect_error([&] { next_row(reader); }, "[data] " + name + ":2: [json] row:1:1: ");
  EXPECT_EQ(next_row(reader)->value, Json({{"a", 2}})) << "the rows after a bad one can be read";
  expect_error([&] { next_row(reader); }, "[data] " + name + ":4: ");
  EXPECT_FALSE(next_row(reader));
}

TEST(RowReader, NamesTheElementOfAnArrayThatIsNotJson) {
  const TemporaryFolder folder;
  write_file(folder / "rows.json", "[1, {\"a\" 2}, 3]");
  RowReader reader(folder / "rows.json");
  next_row(reader);
  expect_error([&] { next_row(reader); }, (folder / "rows.json").string() + ":2: ");
  EXPECT_EQ(next_row(reader)->value, 3);
}

TEST(RowReader, RefusesAnArrayThatIsNotClosed) {
  for (const auto content : {"[", "[1", "[1,", "[{\"a\": 1}, {\"a\"", "[\"]", "[1, [2]"}) {
    expect_broken(content, "the file ends inside of the array");
  }
}

TEST(RowReader, RefusesAnArrayWithGapsOrWithTextAfterIt) {
  expect_broken("[1,,2]", ":2: expected an element of the array, found ','");
  expect_broken("[1,]", ":2: expected an element of the array, found ']'");
  expect_broken("[,1]", ":1: expected an element of the array, found ','");
  expect_broken("[1]\n[2]\n", "text after the end of the array");
}

TEST(RowReader, RefusesARowThatIsTooLong) {
  const std::string text = "\"" + std::string(98, 'x') + "\"";
  EXPECT_EQ(rows_of(text + "\n" + text, 100).size(), 2u);
  EXPECT_EQ(rows_of("[" + text + "," + text + "]", 100).size(), 2u);
  const std::string message = ":2: expected rows of at most 99 bytes, found a longer one";
  expect_error([&] { rows_of("1\n" + text, 99); }, message);
  expect_error([&] { rows_of("[1," + text + "]", 99); }, message);
}

TEST(RowReader, RefusesWhatIsNotAFile) {
  const TemporaryFolder folder;
  expect_error([&] { RowReader(folder.path()); }, "expected a regular file");
  expect_error([&] { RowReader(folder / "none"); }, "none: expected a regular file, found No such");
}

}  // namespace
}  // namespace reprise::testing
