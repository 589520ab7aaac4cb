// Numbers with units, and the progress line at every width.
#include "support/nan.h"

#include <reprise/report/progress_text.h>
#include <reprise/report/units.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace reprise::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Characters, each one column wide in what we print.
size_t columns(const std::string& utf8) {
  size_t count = 0;
  for (const char byte : utf8) {
    count += (static_cast<uint8_t>(byte) & 0xC0) == 0x80 ? 0 : 1;
  }
  return count;
}

Progress full_progress() {
  return {.step = 120,
          .total = 1000,
          .epoch = 0.36,
          .loss = 2.31456,
          .learning_rate = 1.9e-5,
          .grad_norm = 0.8412,
          .tokens_per_second = 12345,
          .seconds_left = 92,
          .live_bytes = 3.25 * (1 << 30),
          .peak_bytes = 4.5 * (1 << 30)};
}

TEST(HumanBytes, CountsInPowersOf1024WithThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(38.25 * (1 << 20)), "38.2 MiB");
  EXPECT_EQ(human_bytes(517.5 * (1 << 20)), "518 MiB");
  EXPECT_EQ(human_bytes(1023.99 * 1024), "1.00 MiB") << "1024 KiB is a MiB";
  EXPECT_EQ(human_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(human_bytes(1e30), "8.882e+14 PiB");
  EXPECT_EQ(human_bytes(kNaN), "nan");
}

TEST(HumanCount, CountsInPowersOf1000WithThreeDigits) {
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(999.7), "1.00k");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(human_count(4.6e6), "4.60M");
  EXPECT_EQ(human_count(-kInfinity), "-inf");
}

TEST(HumanSeconds, ShowsTwoUnitsAtMost) {
  EXPECT_EQ(human_seconds(0.0042), "4.2 ms");
  EXPECT_EQ(human_seconds(0.042), "42 ms");
  EXPECT_EQ(human_seconds(9.44), "9.4 s");
  EXPECT_EQ(human_seconds(59.96), "1m00s") << "not 60.0 s";
  EXPECT_EQ(human_seconds(92), "1m32s");
  EXPECT_EQ(human_seconds(3599.7), "1h00m");
  EXPECT_EQ(human_seconds(2 * 3600 + 5 * 60), "2h05m");
  EXPECT_EQ(human_seconds(3 * 86400 + 4 * 3600), "3d04h");
  EXPECT_EQ(human_seconds(kInfinity), "inf");
}

TEST(ProgressLine, ShowsAllPartsWhereThereIsRoom) {
  EXPECT_EQ(progress_line(full_progress(), 200, BarStyle::Ascii),
            "[###.........................]   120/1000  epoch 0.36  loss   2.315  lr  1.9e-05  "
            "grad norm    0.841  12.3k tokens/s  memory 3.25 GiB, peak 4.50 GiB   1m32s left");
}

TEST(ProgressLine, FitsEightyColumnsWithTheObjectivesFigures) {
  Progress progress = full_progress();
  progress.step = 11200;
  progress.total = 12000;
  progress.figures = {{"accuracy", 0.75, 2}, {"margin", -0.01234}};
  EXPECT_EQ(progress_line(progress, 79, BarStyle::Ascii),
            "[#####.]  11200/12000  loss   2.315  accuracy 0.75  margin -0.0123   1m32s left");
}

TEST(ProgressLine, DoesNotMoveFromStepToStep) {
  Progress progress = full_progress();
  progress.figures = {{"reward", 0}, {"length", 8}};
  progress.seconds_left.reset();
  const std::string first = progress_line(progress, 79, BarStyle::Ascii);
  for (const double value : {0.0, 1e-5, -0.31234, 2.0, 31.41592, 12345.678}) {
    progress.loss = progress.figures[0].value = progress.figures[1].value = value;
    progress.seconds_left = std::abs(value);
    const std::string line = progress_line(progress, 79, BarStyle::Ascii);
    EXPECT_EQ(line.size(), first.size()) << line;
    for (const char* part : {"]", "loss", "reward", "length", "left"}) {
      EXPECT_EQ(line.find(part), first.find(part)) << line;
    }
  }
}

TEST(ProgressLine, IsNeverWiderThanTheTerminal) {
  Progress progress = full_progress();
  for (const BarStyle style : {BarStyle::Ascii, BarStyle::Unicode}) {
    for (progress.step = 0; progress.step <= 1000; progress.step += 37) {
      for (size_t width = 0; width <= 200; ++width) {
        const std::string line = progress_line(progress, width, style);
        ASSERT_LE(columns(line), width) << line;
      }
    }
  }
}

TEST(ProgressLine, KeepsTheStepAndTheLossLongest) {
  EXPECT_EQ(progress_line(full_progress(), 33, BarStyle::Ascii),
            "[......]   120/1000  loss   2.315");
  EXPECT_EQ(progress_line(full_progress(), 19, BarStyle::Ascii), "[......]   120/1000");
  EXPECT_EQ(progress_line(full_progress(), 18, BarStyle::Ascii), " 120/1000");
  EXPECT_EQ(progress_line(full_progress(), 4, BarStyle::Ascii), " 120");
}

TEST(ProgressLine, FillsTheBarAtTheEndAndNotBefore) {
  Progress progress{.step = 999, .total = 1000};
  EXPECT_NE(progress_line(progress, 80, BarStyle::Ascii).find(".]"), std::string::npos);
  progress.step = 1000;
  EXPECT_EQ(progress_line(progress, 80, BarStyle::Ascii), "[######]  1000/1000       ? left");
  progress.step = 1200;
  EXPECT_EQ(columns(progress_line(progress, 80, BarStyle::Unicode)), 32u);
}

TEST(ProgressLine, ShowsALossThatIsNotFinite) {
  Progress progress{.step = 1, .total = 2};
  progress.loss = kNaN;
  EXPECT_NE(progress_line(progress, 80, BarStyle::Ascii).find("loss     nan"), std::string::npos);
  progress.loss = 1e30;
  EXPECT_NE(progress_line(progress, 80, BarStyle::Ascii).find("loss   1e+30"), std::string::npos);
}

TEST(ProgressLine, HasNoBarWhenTheEndIsUnknown) {
  EXPECT_EQ(progress_line({.step = 7, .total = 0}, 80, BarStyle::Ascii), "step 7");
}

TEST(ProgressLogLine, LeavesOutWhatIsNotKnown) {
  Progress progress{.step = 10, .total = 1000};
  progress.loss = 0.5;
  progress.peak_bytes = 2048;
  EXPECT_EQ(progress_log_line(progress), "step 10/1000  loss 0.5000  memory peak 2.00 KiB");
}

TEST(ProgressText, SaysNothingOfATimeThatIsOver) {
  Progress progress;
  progress.step = 4;
  progress.total = 5;
  progress.seconds_left = 0.2;
  EXPECT_EQ(progress_log_line(progress), "step 4/5");
}

TEST(EstimateSecondsLeft, IsTheMeanStepTimesWhatIsLeft) {
  EXPECT_EQ(estimate_seconds_left(10, 0, 5), std::nullopt);
  EXPECT_EQ(estimate_seconds_left(10, 4, 6), 15.0);
  EXPECT_EQ(estimate_seconds_left(10, 4, -1), 0.0);
}

}  // namespace
}  // namespace reprise::testing
