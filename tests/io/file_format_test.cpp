// Files of other programs are named, with a command that converts them.
#include "support/error_text.h"
#include "support/temporary_folder.h"

#include <reprise/io/file_format.h>

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

namespace reprise {
namespace {

using namespace std::string_view_literals;
using testing::expect_error;
using testing::TemporaryFolder;

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(FileFormat, RowsOfOtherProgramsAreNamedWithACommand) {
  const std::tuple<std::string_view, const char*, const char*, const char*> cases[] = {
      {"PAR1\x15\x04"sv, "d/train.parquet", "a Parquet file", "read_parquet('d/train.parquet')"},
      {"ARROW1\0\0"sv, "a.arrow", "an Arrow file", "Dataset.from_file('a.arrow')"},
      {"\xFF\xFF\xFF\xFF\x80"sv, "a.arrow", "an Arrow file", "to_json('a.jsonl')"},
      {"PK\x03\x04"sv, "a.xlsx", "a spreadsheet", "read_excel"},
      {"PK\x03\x04"sv, "a.zip", "a zip archive", "unzip a.zip"},
      {"prompt,completion\n"sv, "a.csv", "a CSV file", "csv.DictReader(open('a.csv'))"},
      {"prompt\tb\n"sv, "a.TSV", "a TSV file", "delimiter='\\t'"},
      {"prompt,b\n"sv, "a.csv.gz", "a CSV file", "gzip.open('a.csv.gz', 'rt')"},
      {"Once upon a time"sv, "book.txt", "plain text", "{'text': line.strip()}"},
      {"\xFF\xFE{\0"sv, "a.jsonl", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 a.jsonl"},
      {"{\0\"\0"sv, "a.jsonl", "text in UTF-16LE", "iconv -f UTF-16LE"},
      {"\x28\xB5\x2F\xFD"sv, "a.jsonl.zst", "compressed by zstd", "zstd -d a.jsonl.zst"},
      {"GGUF\x03"sv, "m.gguf", "weights of a model", "JSON Lines"},
      {"\x40\0\0\0\0\0\0\0{\"a\""sv, "model", "weights of a model", "JSON Lines"}};
  for (const auto& [bytes, name, what, command] : cases) {
    const std::string text = foreign_rows(bytes, name);
    expect_contains(text, what);
    expect_contains(text, command);
  }
}

TEST(FileFormat, WhatMayBeRowsIsLeftToTheParser) {
  for (const auto& [bytes, name] : {std::pair{"{\"a\": 1}", "a.csv"},
                                    {"\n [", "a.txt"},
                                    {"\xEF\xBB\xBF{", "a.csv"},
                                    {"", "a.csv"},
                                    {"nonsense", "a.jsonl"},
                                    {"nonsense", "a"}}) {
    EXPECT_EQ(foreign_rows(bytes, name), "") << bytes;
  }
}

TEST(FileFormat, ANameThatAShellWouldReadOtherwiseIsNotQuoted) {
  for (const char* name : {"a b.parquet", "$(x).parquet", "'.parquet", "-x.parquet"}) {
    expect_contains(foreign_rows("PAR1", name), "read_parquet('FILE')");
  }
}

TEST(FileFormat, AModelInOneFileIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.gguf";
  std::ofstream(file) << "GGUF";
  const std::string command =
      "reprise import " + file.string() + " " + (folder.path() / "model").string();
  expect_error([&] { refuse_foreign_model(file); }, command);
  expect_error([&] { refuse_foreign_model(folder.path()); }, command);
  std::ofstream(folder.path() / "config.json") << "{}";
  refuse_foreign_model(folder.path());
  refuse_foreign_model(folder.path() / "missing");
  expect_error([&] { refuse_foreign_model(folder.path() / "config.json"); }, "is a file, not");
}

}  // namespace
}  // namespace reprise
