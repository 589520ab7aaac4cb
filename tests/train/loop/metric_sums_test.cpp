// How the metrics of micro-batches become those of a step, and those of batches those of an
// evaluation.
#include "train/loop/metric_sums.h"
#include "support/thread_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <vector>

namespace reprise::testing {
namespace {

Metric metric(const char* name, double sum, double weight, MetricMean mean) {
  return {name, at::scalar_tensor(sum), at::scalar_tensor(weight), mean};
}

/// Two micro-batches: 1 of 10 tokens is right, then 3 of 4.
void add_all(MetricSums& sums) {
  using enum MetricMean;
  sums.add({metric("accuracy", 1, 10, OfMicroBatches),
            metric("pooled", 1, 10, Pooled),
            metric("low", 5, 1, OfMinima),
            metric("high", 5, 1, OfMaxima),
            metric("least", 5, 1, Least),
            metric("greatest", 5, 1, Greatest)});
  sums.add({metric("accuracy", 3, 4, OfMicroBatches),
            metric("pooled", 3, 4, Pooled),
            metric("low", 8, 1, OfMinima),
            metric("high", 8, 1, OfMaxima),
            metric("least", 8, 1, Least),
            metric("greatest", 8, 1, Greatest)});
  sums.add({metric("accuracy", 0, 0, OfMicroBatches), metric("low", 0, 0, OfMinima)});
  sums.add({});  // a filler
}

TEST(MetricSums, GiveMicroBatchesOfAStepTheSameWeight) {
  MetricSums sums;
  add_all(sums);
  Json record = Json::object();
  sums.write_to(record, World::single());
  EXPECT_DOUBLE_EQ(record["accuracy"].get<double>(), (0.1 + 0.75) / 2);
  EXPECT_DOUBLE_EQ(record["pooled"].get<double>(), 4. / 14);
  EXPECT_EQ(record["low"], 6.5);
  EXPECT_EQ(record["high"], 6.5);
  EXPECT_EQ(record["least"], 5);
  EXPECT_EQ(record["greatest"], 8);
}

TEST(MetricSums, OfAnEvaluationDoNotDependOnItsBatches) {
  MetricSums sums(MetricSums::Of::Evaluation);
  add_all(sums);
  Json record = Json::object();
  sums.write_to(record, World::single(), "eval_");
  EXPECT_DOUBLE_EQ(record["eval_accuracy"].get<double>(), 4. / 14);
  EXPECT_EQ(record["eval_low"], 5);
  EXPECT_EQ(record["eval_high"], 8);
}

// Micro-batches that processes compute at the same time are one.
TEST(MetricSums, PoolAMicroBatchOverTheProcesses) {
  using enum MetricMean;
  run_in_world(2, [](const World& world) {
    MetricSums sums;
    const bool is_first = world.rank() == 0;
    sums.add({metric("accuracy", is_first ? 1 : 5, 10, OfMicroBatches),
              metric("low", is_first ? 1 : 2, 1, OfMinima),
              metric("high", is_first ? 1 : 2, 1, OfMaxima)});
    sums.add(is_first ? std::vector<Metric>{metric("accuracy", 1, 2, OfMicroBatches),
                                            metric("low", 7, 1, OfMinima)}
                      : std::vector<Metric>());
    Json record = Json::object();
    sums.write_to(record, world);
    EXPECT_DOUBLE_EQ(record["accuracy"].get<double>(), (6. / 20 + 0.5) / 2);
    EXPECT_EQ(record["low"], 4);
    EXPECT_EQ(record["high"], 2);
  });
}

}  // namespace
}  // namespace reprise::testing
