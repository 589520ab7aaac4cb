// Data files opened as datasets: examples, reports, errors, mixtures.
#include "data/dataset/mixture.h"
#include "data/fake_rows.h"
#include "data/gzip_bytes.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

class OpenDataset : public ::testing::Test {
 protected:
  /// With caches in a folder of this test.
  OpenedDataset open(DatasetOptions options) const {
    options.cache = folder_ / "caches";
    return data::open_rows(rows_.rules(), options);
  }

  OpenedDataset open_text(const std::string& text, bool skip_bad_rows = false) const {
    write_file(folder_ / "rows.jsonl", text);
    return open({.files = {{folder_ / "rows.jsonl"}}, .skip_bad_rows = skip_bad_rows});
  }

  std::string name(const std::string& file) const { return (folder_ / file).string(); }

  TemporaryFolder folder_;
  FakeRows rows_;
};

TEST_F(OpenDataset, GivesTheExamplesOfTheRowsInOrder) {
  const auto [dataset, report] = open_text("{\"ids\": [7, 8, 9]}\n\n{\"ids\": [5, 6]}\n");
  ASSERT_EQ(dataset->size(), 2);
  const Example first = dataset->at(0);
  ASSERT_EQ(first.sequences.size(), 1u);
  EXPECT_EQ(first.sequences[0].ids, (std::vector<int64_t>{7, 8, 9}));
  EXPECT_EQ(first.sequences[0].labels, (std::vector<int64_t>{kIgnoredLabel, 8, 9}));
  EXPECT_EQ(first.sequences[0].prompt, 1);
  EXPECT_EQ(dataset->at(1).sequences[0].ids, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(dataset->length(0), 3);
  EXPECT_EQ(dataset->length(1), 2);
  EXPECT_EQ(dataset->location_name(dataset->at(1).location), name("rows.jsonl") + ":3");
  EXPECT_EQ(report.rows, 2);
  EXPECT_EQ(report.format, "ids");
  EXPECT_FALSE(report.from_cache);
  expect_error([&, all = dataset] { all->at(2); }, "expected an example in [0, 2), found 2");
  expect_error([&, all = dataset] { all->length(-1); }, "expected an example in [0, 2), found -1");
}

TEST_F(OpenDataset, ReadsFilesOneAfterTheOther) {
  write_numbers(folder_ / "a", 0, 3);
  write_file(folder_ / "b", gzip_member("[{\"ids\": [3]}, {\"ids\": [4]}]"));
  const auto [dataset, report] = open({.files = {{folder_ / "a"}, {folder_ / "b"}}});
  EXPECT_EQ(first_ids(*dataset), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(dataset->location_name(dataset->at(4).location), name("b") + ":2");
  EXPECT_EQ(report.rows, 5);
}

TEST_F(OpenDataset, KeepsTheOrderOfRowsThatSeveralThreadsTokenise) {
  write_numbers(folder_ / "a", 0, 2500);
  const auto opened = open({.files = {{folder_ / "a"}}});
  std::vector<int64_t> expected(2500);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(first_ids(*opened.dataset), expected);
}

TEST_F(OpenDataset, CountsWhatWasDropped) {
  const auto opened = open_text("{\"ids\": []}\n{\"ids\": [1]}\n{\"ids\": []}\n");
  EXPECT_EQ(opened.dataset->size(), 1);
  EXPECT_EQ(opened.report.rows, 3);
  EXPECT_EQ(opened.report.dropped, (std::map<std::string, int64_t>{{"no tokens", 2}}));
}

TEST_F(OpenDataset, CountsEveryExampleThatARowLost) {
  const auto opened = open_text(
      "{\"pair\": [[1], []]}\n{\"pair\": [[], [2]]}\n{\"pair\": [[], []]}\n{\"pair\": [[3], "
      "[4]]}\n");
  EXPECT_EQ(opened.report.rows, 4);
  EXPECT_EQ(opened.report.dropped, (std::map<std::string, int64_t>{{"no tokens", 4}}));
  // The rejected answer of a pair whose chosen one is gone still comes after all chosen ones.
  EXPECT_EQ(first_ids(*opened.dataset), (std::vector<int64_t>{1, 3, 2, 4}));
}

TEST_F(OpenDataset, CountsHintsAndKeepsTheFirstWithItsPlace) {
  write_file(folder_ / "a", "{\"ids\": [1]}\n{\"ids\": [2], \"hint\": \"ä1\"}\n");
  write_file(folder_ / "b", "{\"ids\": [3], \"hint\": \"b1\"}\n{\"ids\": [4], \"hint\": \"b2\"}\n");
  for (const bool is_from_cache : {false, true}) {
    const auto report = open({.files = {{folder_ / "a"}, {folder_ / "b"}}}).report;
    EXPECT_EQ(report.from_cache, is_from_cache);
    EXPECT_EQ(report.hint, name("a") + ":2: ä1");
    EXPECT_EQ(report.hint_count, 3);
  }
  EXPECT_EQ(open({.files = {{folder_ / "b"}}}).report.hint, name("b") + ":1: b1");
}

TEST_F(OpenDataset, StopsAtTheFirstBadRow) {
  const std::string good = "{\"ids\": [1]}\n", place = name("rows.jsonl") + ":2: ";
  expect_error([&] { open_text(good + "{\"ids\": 3}\n{"); },
               "[data] " + place + "expected a list of ids, found 3");
  expect_error([&] { open_text(good + "hello\n{\"ids\": 3}\n"); }, "[data] " + place + "[json] ");
  expect_error([&] { open_text(good + "{\"x\": 3}\n"); }, place + "expected the key ids or pair");
}

TEST_F(OpenDataset, SkipsAndCountsBadRowsIfAsked) {
  std::string text = "hello\n{\"ids\": [1]}\n";
  for (int i = 0; i < 20; ++i) {
    text += "{\"ids\": 3}\n";
  }
  const auto opened = open_text(text, true);
  EXPECT_EQ(first_ids(*opened.dataset), std::vector<int64_t>{1});
  EXPECT_EQ(opened.report.bad_row_count, 21);
  ASSERT_EQ(opened.report.bad_rows.size(), 10u);
  EXPECT_TRUE(opened.report.bad_rows[0].starts_with(name("rows.jsonl") + ":1: [json] "));
  EXPECT_EQ(opened.report.bad_rows[1], name("rows.jsonl") + ":3: expected a list of ids, found 3");
}

TEST_F(OpenDataset, RefusesABrokenFileEvenIfBadRowsAreSkipped) {
  expect_error([&] { open_text("[{\"ids\": [1]}, {\"ids\"", true); }, "ends inside of the array");
}

TEST_F(OpenDataset, RefusesMixedConventionsInAFile) {
  for (const bool skip_bad_rows : {false, true}) {
    expect_error(
        [&] {
          open_text("{\"ids\": [1]}\n{\"ids\": [2]}\n{\"pair\": [[1], [2]]}\n", skip_bad_rows);
        },
        name("rows.jsonl") + ":3: mixed conventions: expected \"ids\" as in " + name("rows.jsonl") +
            ":1, found \"a pair\"");
  }
}

TEST_F(OpenDataset, RefusesMixedConventionsOfFiles) {
  write_numbers(folder_ / "a", 0, 3);
  write_file(folder_ / "b", "\n{\"pair\": [[1], [2]]}\n");
  for (int again = 0; again < 2; ++again) {  // the second time from the caches
    expect_error(
        [&] {
          open({.files = {{folder_ / "a"}, {folder_ / "b"}}});
        },
        name("b") + ":2: mixed conventions: expected \"ids\" as in " + name("a") + ":1");
  }
}

TEST_F(OpenDataset, RefusesAFileWithoutRows) {
  for (const auto text : {"", "\n\n", "[]"}) {
    expect_error([&] { open_text(text); }, "the file has no rows");
  }
}

TEST_F(OpenDataset, SaysWhatBecameOfTheRowsWhenNoExampleIsLeft) {
  expect_error([&] { open_text("{\"ids\": []}\n{\"ids\": []}\n{\"x\": 1}\n", true); },
               name("rows.jsonl") +
                   ": no example is left; 3 rows; dropped 2: no tokens; skipped 1 as bad, first " +
                   name("rows.jsonl") + ":3: expected the key ids or pair");
}

TEST_F(OpenDataset, PutsRejectedExamplesAfterTheChosenOnesOfAThousandRows) {
  std::string text;
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 1200; ++i) {
    text += "{\"pair\": [[" + std::to_string(i) + "], [" + std::to_string(10000 + i) + "]]}\n";
  }
  for (const auto& [begin, end] : {std::pair{0, 1000}, {1000, 1200}}) {
    for (const int64_t offset : {0, 10000}) {
      for (int64_t i = begin; i < end; ++i) {
        expected.push_back(offset + i);
      }
    }
  }
  const auto opened = open_text(text);
  EXPECT_EQ(first_ids(*opened.dataset), expected);
  EXPECT_EQ(opened.dataset->at(1000).location.line, 1);
  EXPECT_FALSE(opened.dataset->at(1000).desirable);
}

TEST_F(OpenDataset, MixesFilesByTheirWeights) {
  write_numbers(folder_ / "a", 0, 30);
  write_numbers(folder_ / "b", 30, 50);
  const DatasetOptions options{.files = {{folder_ / "a", 3}, {folder_ / "b", 1}}, .seed = 5};
  const auto opened = open(options);
  const std::vector<int64_t> sizes = {30, 50};
  const std::vector<double> weights = {0.75, 0.25};
  EXPECT_EQ(first_ids(*opened.dataset), data::mixture_order(sizes, weights, 5));
  const int64_t last = opened.dataset->size() - 1;
  EXPECT_EQ(opened.dataset->at(last).location.file, 0)
      << "ends with the first file that has no more";
  EXPECT_EQ(opened.dataset->at(last).location.line, 30);
}

TEST_F(OpenDataset, RefusesAMixtureWithAFileOfNoExamples) {
  write_numbers(folder_ / "a", 0, 3);
  write_file(folder_ / "b", "{\"ids\": []}\n");
  expect_error(
      [&] {
        open({.files = {{folder_ / "a", 1}, {folder_ / "b", 1}}});
      },
      name("b") + ": no example is left");
  EXPECT_EQ(open({.files = {{folder_ / "a"}, {folder_ / "b"}}}).dataset->size(), 3);
}

TEST_F(OpenDataset, RefusesWeightsThatAreNot) {
  write_numbers(folder_ / "a", 0, 3);
  const auto open_weights = [&](double a, double b) {
    open({.files = {{folder_ / "a", a}, {folder_ / "a", b}}});
  };
  expect_error([&] { open_weights(1, 0); }, "either all files have a weight, or none");
  expect_error([&] { open_weights(-1, 1); }, "expected a weight above 0, found -1");
  expect_error([&] { open_weights(1, NAN); }, "expected a weight above 0");
  expect_error([&] { open({}); }, "expected at least one data file");
}

TEST_F(OpenDataset, TakesTheFirstRowsOnly) {
  write_numbers(folder_ / "a", 0, 5);
  write_file(folder_ / "b", "{\"ids\": [5]}\n{\"ids\": [6]}\nnot read\n");
  const auto take = [&](int64_t count, double weight) {
    return first_ids(
        *open({.files = {{folder_ / "a", weight}, {folder_ / "b", weight}}, .max_samples = count})
             .dataset);
  };
  EXPECT_EQ(take(3, 0), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(take(7, 0), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(take(2, 1).size(), 2u);
  expect_error([&] { take(0, 0); }, "expected max_samples above 0");
}

TEST_F(OpenDataset, TellsItsProgress) {
  write_numbers(folder_ / "a", 0, 1500);
  write_numbers(folder_ / "b", 1500, 1500);
  std::vector<int64_t> rows;
  std::vector<double> fractions;
  open({.files = {{folder_ / "a"}, {folder_ / "b"}}, .progress = [&](int64_t count, double part) {
          rows.push_back(count);
          fractions.push_back(part);
        }});
  EXPECT_EQ(rows, (std::vector<int64_t>{1000, 1500, 2500, 3000}));
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0);
}

TEST(ParseDataFiles, SeparatesNamesAndWeights) {
  const auto files = parse_data_files("a.jsonl:0.3,dir/b:c.json:7e-1");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "a.jsonl");
  EXPECT_EQ(files[0].weight, 0.3);
  EXPECT_EQ(files[1].path, "dir/b:c.json");
  EXPECT_EQ(files[1].weight, 0.7);
}

TEST(ParseDataFiles, LeavesWeightsOut) {
  const auto files = parse_data_files("c:/a.jsonl,b");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "c:/a.jsonl");
  EXPECT_EQ(files[0].weight, 0);
}

TEST(ParseDataFiles, RefusesNoNameAndNoWeight) {
  expect_error([] { parse_data_files(""); }, "expected the name of a file, found \"\"");
  expect_error([] { parse_data_files("a,,b"); }, "expected the name of a file");
  expect_error([] { parse_data_files(":3"); }, "expected the name of a file, found \":3\"");
  for (const auto text : {"a:0", "a:-1", "a:inf", "a:nan"}) {
    expect_error([&] { parse_data_files(text); }, "expected a weight above 0");
  }
}

}  // namespace
}  // namespace reprise::testing
