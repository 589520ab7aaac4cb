// Lengths of rows before truncation.
#include <reprise/data/length_report.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace reprise {
namespace {

LengthReport lengths_up_to(int64_t rows, int64_t limit) {
  LengthReport report;
  for (int64_t length = 1; length <= rows; ++length) {
    report.add({.longest = length, .tokens = length, .lost = std::max<int64_t>(length - limit, 0)});
  }
  return report;
}

TEST(LengthReport, CountsWhatTruncationTakesAway) {
  const auto report = lengths_up_to(100, 90);
  EXPECT_EQ(report.examples, 100);
  EXPECT_EQ(report.truncated, 10);
  EXPECT_EQ(report.tokens, 5050);
  EXPECT_EQ(report.lost, 55);
}

TEST(LengthReport, NamesALengthThatKeepsAShareWhole) {
  EXPECT_EQ(LengthReport().length_for(0.99), 0);
  EXPECT_EQ(lengths_up_to(100, 0).length_for(0.99), 99);
  EXPECT_EQ(lengths_up_to(100, 0).length_for(1), 100);
  for (const int64_t rows : {200, 1000, 5000}) {
    const auto enough = lengths_up_to(rows, 0).length_for(0.99);
    EXPECT_GE(enough, rows * 99 / 100);
    EXPECT_LE(enough, rows * 99 / 100 * 103 / 100) << "rounded up by too much";
  }
}

TEST(LengthReport, AddsUpAndSurvivesAsJson) {
  auto report = lengths_up_to(300, 90);
  report.add(lengths_up_to(7, 0));
  const auto again = LengthReport::from_json(report.to_json());
  EXPECT_EQ(again.examples, 307);
  EXPECT_EQ(again.lengths, report.lengths);
  EXPECT_EQ(again.to_json(), report.to_json());
  EXPECT_THROW(LengthReport::from_json(Json::object()), Json::exception);
}

}  // namespace
}  // namespace reprise
