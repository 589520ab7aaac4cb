// Schedules, against the lambdas of transformers' get_scheduler.
#include "optim/expected_file.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/optim/schedule.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace reprise::testing {
namespace {

RampShape shape_named(const std::string& name) {
  static const std::map<std::string, RampShape> shapes = {{"linear", RampShape::Linear},
                                                          {"cosine", RampShape::Cosine},
                                                          {"1-sqrt", RampShape::OneMinusSqrt}};
  return shapes.at(name);
}

ScheduleOptions schedule_options_of(const Json& entry) {
  const Json arguments = entry.value("kwargs", Json::object());
  ScheduleOptions options;
  options.kind = schedule_named(entry.at("name").get<std::string>());
  options.warmup_steps = entry.value("warmup", int64_t{0});
  options.min_ratio = arguments.value("min_lr_rate", arguments.value("min_lr_ratio", 0.0));
  options.cycles = arguments.value("num_cycles", 0.5);
  options.decay_steps = arguments.value("num_decay_steps", int64_t{0});
  if (arguments.contains("num_stable_steps")) {
    options.stable_steps = arguments.at("num_stable_steps").get<int64_t>();
  }
  options.warmup_shape = shape_named(arguments.value("warmup_type", "linear"));
  options.decay_shape = shape_named(arguments.value("decay_type", "cosine"));
  return options;
}

TEST(Schedule, EqualsTransformersInEveryCase) {
  const ExpectedFile file("schedules");
  const Json entries = file.fact("schedules");
  std::map<std::string, int> cases;
  for (size_t i = 0; i < entries.size(); ++i) {
    const ScheduleOptions options = schedule_options_of(entries[i]);
    const auto total = entries[i].at("total").get<int64_t>();
    const at::Tensor expected = file.tensor(std::to_string(i));
    ASSERT_EQ(expected.numel(), 50);
    for (int64_t step = 0; step < 50; ++step) {
      EXPECT_NEAR(learning_rate_factor(options, step, total), expected[step].item<double>(), 1e-12)
          << entries[i] << " step " << step;
    }
    ++cases[entries[i].at("name").get<std::string>()];
  }
  EXPECT_EQ(cases.size(), 6U);
  for (const auto& [name, count] : cases) {
    EXPECT_GE(count, 3) << name;
  }
}

TEST(Schedule, KnowsTheNamesOfTransformers) {
  EXPECT_EQ(schedule_named("cosine_with_min_lr"), ScheduleKind::CosineWithMin);
  EXPECT_EQ(schedule_named("wsd"), ScheduleKind::WarmupStableDecay);
  expect_error([] { schedule_named("cosin"); },
               "there is no schedule \"cosin\": expected one of constant, constant_with_warmup, "
               "linear, cosine, cosine_with_min_lr, warmup_stable_decay, wsd");
}

TEST(Schedule, TheLeastIsTheOneOfItsKindUnlessGiven) {
  ScheduleOptions late{.kind = ScheduleKind::WarmupStableDecay, .decay_steps = 4};
  EXPECT_EQ(learning_rate_factor(late, 10, 10), 0);
  late.min_ratio = 0.2;
  EXPECT_EQ(learning_rate_factor(late, 10, 10), 0.2);
  const ScheduleOptions cosine{.kind = ScheduleKind::CosineWithMin};
  EXPECT_DOUBLE_EQ(learning_rate_factor(cosine, 10, 10), 0.1);
}

TEST(Schedule, RefusesWhatIsOutOfRange) {
  expect_error([] { learning_rate_factor({}, -1, 10); }, "got step -1 of 10");
  expect_error([] { learning_rate_factor({.warmup_steps = -3}, 0, 10); }, "got warmup_steps -3");
  expect_error([] { learning_rate_factor({.min_ratio = 1.1}, 0, 10); },
               "min_ratio: expected 0 to 1, got 1.1");
}

TEST(WarmupCount, IsACountFromOneOn) {
  EXPECT_EQ(warmup_count(1, 1000), 1);
  EXPECT_EQ(warmup_count(7.9, 1000), 7);
  EXPECT_EQ(warmup_count(2000, 1000), 2000);
}

TEST(WarmupCount, IsAShareRoundedUpBelowOne) {
  EXPECT_EQ(warmup_count(0, 1000), 0);
  EXPECT_EQ(warmup_count(0.03, 101), 4);
  EXPECT_EQ(warmup_count(0.5, 100), 50);
  EXPECT_EQ(warmup_count(1e-9, 100), 1);
  EXPECT_EQ(warmup_count(0.1, 0), 0);
}

TEST(WarmupCount, RefusesWhatIsNeither) {
  expect_error([] { warmup_count(-0.1, 10); }, "warmup_steps: expected a count, or a share");
  expect_error([] { warmup_count(NAN, 10); }, "warmup_steps: expected a count, or a share");
  expect_error([] { warmup_count(std::numeric_limits<double>::infinity(), 10); },
               "warmup_steps: expected a count, or a share");
  expect_error([] { warmup_count(0.1, -10); }, "total of at least 0 steps, got -10");
}

}  // namespace
}  // namespace reprise::testing
