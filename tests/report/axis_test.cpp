// Axes of the report's charts, and the series drawn on them.
#include "report/charts/axis.h"
#include "report/charts/series.h"
#include "report/charts/stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::report {
namespace {

using Labels = std::vector<std::string>;

TEST(ValueAxis, HasRoundNumbersAroundTheValues) {
  EXPECT_EQ(value_axis(1.83, 4.7, Unit::Number, AxisStart::AtLowest).labels,
            (Labels{"1.5", "2.0", "2.5", "3.0", "3.5", "4.0", "4.5", "5.0"}));
  EXPECT_EQ(value_axis(0.2, 0.9, Unit::Number, AxisStart::AtZero).labels,
            (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(value_axis(-1.6, 0.8, Unit::Number, AxisStart::AtLowest).labels,
            (Labels{"-2.0", "-1.5", "-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_EQ(value_axis(0, 2e-5, Unit::Number, AxisStart::AtZero).labels,
            (Labels{"0", "5e-06", "1e-05", "1.5e-05", "2e-05"}));
}

TEST(ValueAxis, CountsBytesInPowersOfTwo) {
  EXPECT_EQ(value_axis(0, 3.2 * (1 << 30), Unit::Bytes, AxisStart::AtZero).labels,
            (Labels{"0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"}));
  EXPECT_EQ(value_axis(0, 1.3 * (1 << 30), Unit::Bytes, AxisStart::AtZero).labels,
            (Labels{"0", "512 MiB", "1.0 GiB", "1.5 GiB"}));
}

TEST(ValueAxis, WritesLargeNumbersShort) {
  EXPECT_EQ(value_axis(0, 19000, Unit::TokensPerSecond, AxisStart::AtZero).labels,
            (Labels{"0", "5k", "10k", "15k", "20k"}));
  EXPECT_EQ(value_axis(0, 1, Unit::Share, AxisStart::AtZero).labels,
            (Labels{"0 %", "20 %", "40 %", "60 %", "80 %", "100 %"}));
}

TEST(ValueAxis, LeavesRoomAroundAConstant) {
  const Axis axis = value_axis(2, 2, Unit::Number, AxisStart::AtLowest);
  EXPECT_GT(axis.position(2), 0.1);
  EXPECT_LT(axis.position(2), 0.9);
}

TEST(ValueAxis, CoversItsValuesWithAFewTicks) {
  for (const double low : {-3e8, -1.0, 0.0, 1e-9, 7.0, 1e12}) {
    for (const double range : {1e-3, 0.7, 31.0, 1e9}) {
      const Axis axis = value_axis(low, low + range, Unit::Number, AxisStart::AtLowest);
      EXPECT_LE(axis.low, low);
      EXPECT_GE(axis.high, low + range);
      EXPECT_GE(axis.ticks.size(), 2u);
      EXPECT_LE(axis.ticks.size(), 9u);
      EXPECT_TRUE(std::is_sorted(axis.ticks.begin(), axis.ticks.end()));
    }
  }
}

TEST(LogAxis, HasPowersOfTen) {
  const Axis axis = log_axis(0.02, 3000);
  EXPECT_EQ(axis.labels, (Labels{"0.01", "0.1", "1", "10", "100", "1000", "1e+04"}));
  EXPECT_NEAR(axis.position(10), 0.5, 1e-12);
}

TEST(StepAxis, HasWholeStepsAndEndsWithTheRun) {
  EXPECT_EQ(step_axis(1, 3).labels, (Labels{"1", "2", "3"}));
  const Axis axis = step_axis(1, 597);
  EXPECT_EQ(axis.high, 597);
  EXPECT_EQ(axis.labels, (Labels{"100", "200", "300", "400", "500"}));
}

TEST(Smoothed, FollowsAStraightLineWithoutLag) {
  Series line;
  for (int step = 0; step < 400; ++step) {
    line.points.push_back({double(step), 5.0 - 0.01 * step});
  }
  const Series smooth = smoothed(line);
  for (size_t i = 10; i < line.points.size() - 10; ++i) {
    EXPECT_NEAR(smooth.points[i].value, line.points[i].value, 1e-9) << i;
  }
  // At the ends there is one side only to look at; still the last point does not decide alone.
  EXPECT_NEAR(smooth.points.back().value, line.points.back().value, 0.051);
  EXPECT_NE(smooth.points.back().value, line.points.back().value);
}

TEST(Thinned, KeepsTheExtremesAndTheEnd) {
  Series series;
  for (int step = 0; step < 100000; ++step) {
    series.points.push_back({double(step), step == 4321 ? 9.0 : step == 4322 ? -9.0 : 0.0});
  }
  const Series thin = thinned(series);
  EXPECT_LE(thin.points.size(), 801u);
  const auto has = [&](const Point& point) {
    return std::find(thin.points.begin(), thin.points.end(), point) != thin.points.end();
  };
  EXPECT_TRUE(has({4321, 9}) && has({4322, -9}) && has({99999, 0}));
  EXPECT_TRUE(std::is_sorted(thin.points.begin(),
                             thin.points.end(),
                             [](const Point& a, const Point& b) { return a.step < b.step; }));
}

TEST(ThinTogether, KeepsTheSameStepsOfAllLinesAndTheHighestTotal) {
  std::vector<Line> lines(2);
  for (int step = 0; step < 5000; ++step) {
    lines[0].series.points.push_back({double(step), 1.0});
    lines[1].series.points.push_back({double(step), step == 777 ? 50.0 : 2.0});
  }
  thin_together(lines);
  ASSERT_EQ(lines[0].series.points.size(), lines[1].series.points.size());
  EXPECT_LE(lines[0].series.points.size(), 402u);
  for (size_t i = 0; i < lines[0].series.points.size(); ++i) {
    EXPECT_EQ(lines[0].series.points[i].step, lines[1].series.points[i].step);
  }
  EXPECT_EQ(
      std::count(lines[1].series.points.begin(), lines[1].series.points.end(), Point{777, 50}), 1);
}

}  // namespace
}  // namespace reprise::report
