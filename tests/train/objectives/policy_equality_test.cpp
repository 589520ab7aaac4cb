// Every objective under every memory policy: losses, norms and weights to the last bit those of a
// run without checkpointing, for less activation memory, and with as many recomputations as
// planned.
#include "support/bitwise.h"
#include "train/collecting_observer.h"
#include "train/loop/batch_plan.h"
#include "train/training_case.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kSteps = 6;
constexpr int64_t kAccumulation = 2;

struct MemoryPolicy {
  std::string name;
  BlockChoice blocks;
  CheckpointOptions options;
};

std::vector<MemoryPolicy> policies() {
  return {{"full", BlockChoice::all(), {}},
          {"every second", BlockChoice::every(2), {}},
          {"attention kept", BlockChoice::all(), checkpoint_options_named("attention")},
          {"reentrant", BlockChoice::all(), {.use_reentrant = true}}};
}

struct Outcome {
  CollectingObserver observer;
  std::vector<at::Tensor> weights;
  std::vector<int64_t> blocks;         ///< that were checkpointed
  std::vector<int64_t> micro_batches;  ///< of each step
};

Outcome run(const std::string& objective, const Json& json, const MemoryPolicy* policy) {
  const TemporaryFolder folder;
  TrainingCase one(objective, json, folder);
  if (policy != nullptr) {
    one.model->enable_checkpointing(policy->blocks, policy->options);
  }
  Outcome outcome;
  one.train(outcome.observer);
  outcome.blocks = one.model->checkpointed_blocks();
  BatchPlan plan({one.data->size(), one.options.batch_size, kAccumulation},
                 one.options.seed,
                 one.options.shuffle);
  for (int64_t step = 0; step < kSteps; ++step) {
    outcome.micro_batches.push_back(std::ssize(plan.micro_batches(step)));
  }
  for (const auto& [name, parameter] : trained_parameters(*one.model)) {
    outcome.weights.push_back(parameter.detach().clone());
  }
  return outcome;
}

void expect_same_training(const Outcome& found, const Outcome& expected) {
  EXPECT_EQ(found.observer.all("loss"), expected.observer.all("loss"));
  EXPECT_EQ(found.observer.all("grad_norm"), expected.observer.all("grad_norm"));
  expect_bitwise_equal(found.weights, expected.weights);
}

/// Regions a step: each chosen block once in each micro-batch.
void expect_recomputed_as_planned(const Outcome& found) {
  for (size_t step = 0; step < found.micro_batches.size(); ++step) {
    EXPECT_EQ(found.observer.steps[step]["regions_recomputed"],
              std::ssize(found.blocks) * found.micro_batches[step])
        << "step " << step + 1;
  }
}

void expect_less_kept(const Outcome& found, const Outcome& plain) {
  const auto kept = found.observer.all("activation_bytes");
  const auto all = plain.observer.all("activation_bytes");
  for (size_t step = 0; step < all.size(); ++step) {
    EXPECT_LT(kept[step], all[step]) << "step " << step + 1;
  }
}

void expect_policies_equal(const std::string& objective, const Json& json) {
  const Outcome plain = run(objective, json, nullptr);
  ASSERT_EQ(plain.observer.steps.size(), kSteps);
  EXPECT_EQ(plain.micro_batches, (std::vector<int64_t>{2, 2, 2, 1, 2, 2}));
  expect_recomputed_as_planned(plain);  // no blocks, no regions
  for (const MemoryPolicy& policy : policies()) {
    SCOPED_TRACE(policy.name);
    const Outcome found = run(objective, json, &policy);
    ASSERT_FALSE(found.blocks.empty());
    expect_same_training(found, plain);
    expect_recomputed_as_planned(found);
    expect_less_kept(found, plain);
  }
}

Json run_of(const std::string& objective) {
  Json json = usual_run(objective, kSteps);
  json["arguments"]["gradient_accumulation_steps"] = kAccumulation;
  return json;
}

class PolicyEquality : public ::testing::TestWithParam<std::string> {};

TEST_P(PolicyEquality, HoldsForAllWeights) {
  expect_policies_equal(GetParam(), run_of(GetParam()));
}

TEST_P(PolicyEquality, HoldsForAdapters) {
  Json json = run_of(GetParam());
  json["lora"] = Json::object();
  json.erase("reference");  // the policy without its adapters
  expect_policies_equal(GetParam(), json);
}

INSTANTIATE_TEST_SUITE_P(Objectives,
                         PolicyEquality,
                         ::testing::Values("sft", "dpo", "kto", "reward", "prm", "kd"),
                         [](const auto& one) { return one.param; });

/// Dropout draws from the generator in forward: recomputing must draw the same, and leave it where
/// it was.
TEST(PolicyEqualityWithDropout, HoldsInAttention) {
  Json json = run_of("sft");
  json["attention_dropout"] = 0.2;
  // Attention with dropout takes the unfused path on a CPU, where there is no fused result to keep.
  const Outcome plain = run("sft", json, nullptr);
  EXPECT_NE(plain.observer.all("loss"), run("sft", run_of("sft"), nullptr).observer.all("loss"));
  for (const MemoryPolicy& policy : policies()) {
    if (policy.name != "attention kept") {
      SCOPED_TRACE(policy.name);
      const Outcome found = run("sft", json, &policy);
      expect_same_training(found, plain);
      expect_recomputed_as_planned(found);
    }
  }
}

TEST(PolicyEqualityWithDropout, HoldsInAdapters) {
  Json json = run_of("dpo");
  json.erase("reference");
  json["lora"] = {{"dropout", 0.2}};
  expect_policies_equal("dpo", json);
}

}  // namespace
}  // namespace reprise::testing
