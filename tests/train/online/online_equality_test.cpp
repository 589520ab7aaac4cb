// Online training under every memory policy: the same bits, less memory in the update, and none of
// it in the phases that record no gradients.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/online/online_case.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

struct OnlineOutcome {
  CollectingObserver observer;
  std::vector<at::Tensor> weights;
};

OnlineOutcome outcome_of(OnlineCase& one) {
  const TemporaryFolder folder;
  OnlineOutcome outcome;
  one.train(outcome.observer, folder / "output");
  outcome.weights = one.weights();
  return outcome;
}

OnlineCase case_of(OnlineEstimator estimator, bool use_lora) {
  OnlineCase one(estimator, use_lora);
  one.options.iterations = 2;
  one.options.training.max_steps = 4;
  if (estimator == OnlineEstimator::Grpo) {
    one.add_reference_in_loss(0.05);
  } else {
    one.add_reference_in_reward(0.05);
  }
  return one;
}

class OnlineEquality : public ::testing::TestWithParam<std::tuple<OnlineEstimator, bool>> {};

TEST_P(OnlineEquality, HoldsUnderEveryMemoryPolicy) {
  const auto [estimator, use_lora] = GetParam();
  auto plain_case = case_of(estimator, use_lora);
  const auto plain = outcome_of(plain_case);
  ASSERT_EQ(plain.observer.steps.size(), 4);
  const auto blocks = plain_case.policy->config().layers;
  const std::vector<std::pair<std::string, CheckpointOptions>> policies = {
      {"full", {}}, {"attention kept", checkpoint_options_named("attention")}};
  for (const auto& [name, how] : policies) {
    SCOPED_TRACE(name);
    auto one = case_of(estimator, use_lora);
    one.checkpoint(how);
    const auto found = outcome_of(one);
    expect_bitwise_equal(found.weights, plain.weights);
    for (const char* metric : {"loss", "grad_norm", "entropy"}) {
      EXPECT_EQ(found.observer.all(metric), plain.observer.all(metric)) << metric;
    }
    for (size_t step = 0; step < 4; ++step) {
      const auto& record = found.observer.steps[step];
      EXPECT_EQ(record.value("reward", -1.0), plain.observer.steps[step].value("reward", -1.0));
      // Two micro-batches a step. The engine's count is exact: any region in rollout, scoring or a
      // frozen pass would have stopped the run.
      EXPECT_EQ(record["regions_recomputed"], 2 * blocks);
      EXPECT_LT(record["activation_bytes"], plain.observer.steps[step]["activation_bytes"]);
      if (estimator == OnlineEstimator::Gae) {
        EXPECT_EQ(record["critic/regions_recomputed"], 2 * blocks);
        EXPECT_LT(record["critic/activation_bytes"],
                  plain.observer.steps[step]["critic/activation_bytes"]);
      }
    }
  }
}

TEST_P(OnlineEquality, HoldsWithinAMemoryBudget) {
  const auto [estimator, use_lora] = GetParam();
  auto plain_case = case_of(estimator, use_lora);
  const auto plain = outcome_of(plain_case);
  auto one = case_of(estimator, use_lora);
  one.checkpoint({});
  one.options.training.memory.activations = Budget{.kind = Budget::Kind::Min};
  const auto found = outcome_of(one);
  expect_bitwise_equal(found.weights, plain.weights);
  for (const Json& record : found.observer.steps) {
    EXPECT_LE(record["budget"]["measured_bytes"], record["budget"]["bytes"]) << record;
    EXPECT_GT(record["regions_recomputed"], 0);
    if (estimator == OnlineEstimator::Gae) {
      EXPECT_LE(record["critic/budget"]["measured_bytes"], record["critic/budget"]["bytes"]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs,
                         OnlineEquality,
                         ::testing::Combine(::testing::Values(OnlineEstimator::Gae,
                                                              OnlineEstimator::Grpo),
                                            ::testing::Bool()));

TEST(OnlinePhases, OnlyTheUpdateNeedsLessMemory) {
  const auto peaks = [](bool is_checkpointed) {
    OnlineCase one(OnlineEstimator::Gae);
    one.options.rollout.generate.max_new_tokens = 40;
    one.options.training.accumulation = 1;
    one.options.training.batch_size = 16;
    one.options.training.max_steps = 2;
    if (is_checkpointed) {
      one.checkpoint();
    }
    return outcome_of(one).observer;
  };
  const auto plain = peaks(false);
  const auto checkpointed = peaks(true);
  for (size_t step = 0; step < 2; ++step) {
    for (const char* phase : {"rollout_peak_bytes", "scoring_peak_bytes"}) {
      const auto found = checkpointed.steps[step][phase].get<double>();
      EXPECT_NEAR(found, plain.steps[step][phase].get<double>(), 0.01 * found) << phase;
    }
    EXPECT_LT(checkpointed.steps[step]["update_peak_bytes"].get<double>(),
              0.9 * plain.steps[step]["update_peak_bytes"].get<double>());
  }
}

}  // namespace
}  // namespace reprise::testing
