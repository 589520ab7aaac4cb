// Training with optimizer state and gradients in host memory: losses, norms, weights, averages and
// checkpoints to the last bit those of a run with everything on the device; fewer bytes there,
// within budgets that are predicted and held. The CPU has two tiers here (Note [Tiers]).
#include "support/bitwise.h"
#include "support/tiers.h"
#include "train/collecting_observer.h"
#include "train/folder_files.h"
#include "train/online/online_case.h"
#include "train/training_case.h"

#include <reprise/memory.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kOffloadSteps = 4;

struct Places {
  std::string name;
  bool state = false, gradients = false;
};

const std::vector<Places>& places() {
  static const std::vector<Places> all = {{"optimizer", true, false},
                                          {"gradients", false, true},
                                          {"optimizer and gradients", true, true}};
  return all;
}

void place(TrainerOptions& options, const Places& where) {
  options.optimizer.host.state = where.state;
  options.optimizer.host.gradients = where.gradients;
}

struct OffloadedRun {
  CollectingObserver observer;
  std::vector<at::Tensor> weights;
  std::map<std::string, std::string> files;  ///< of the last checkpoint
};

OffloadedRun run_offloaded(const std::string& objective,
                           const Json& json,
                           const Places& where,
                           const std::function<void(TrainingCase&)>& change = {}) {
  const TemporaryFolder folder;
  TrainingCase one(objective, json, folder);
  place(one.options, where);
  one.options.ema_decay = 0.8;
  one.options.save_steps = kOffloadSteps;
  if (change) {
    change(one);
  }
  OffloadedRun run;
  one.train(run.observer);
  for (const auto& [name, parameter] : trained_parameters(*one.model)) {
    // Where the next run's budget does not see it.
    run.weights.push_back(
        memory::empty_on_host(parameter.sizes(), parameter.scalar_type(), at::kCPU)
            .copy_(parameter.detach()));
  }
  run.files = files_of(one.options.output / ("checkpoint-" + std::to_string(kOffloadSteps)));
  return run;
}

void expect_same(const OffloadedRun& found, const OffloadedRun& expected) {
  EXPECT_EQ(found.observer.all("loss"), expected.observer.all("loss"));
  EXPECT_EQ(found.observer.all("grad_norm"), expected.observer.all("grad_norm"));
  expect_bitwise_equal(found.weights, expected.weights);
  ASSERT_EQ(found.files.size(), expected.files.size());
  for (const auto& [name, bytes] : expected.files) {
    if (name.ends_with(".safetensors")) {  // the other files have times and bytes
      EXPECT_EQ(found.files.at(name), bytes) << name;
    }
  }
}

struct OffloadCase {
  std::string name;
  std::string objective;
  std::function<void(Json&)> change = [](Json&) {};
};

class OffloadedTraining : public ::testing::TestWithParam<OffloadCase> {
 protected:
  OffloadedTraining() { track_cpu_memory(); }
  CpuTiers tiers_;
};

TEST_P(OffloadedTraining, IsTheSameToTheLastBit) {
  Json json = usual_run(GetParam().objective, kOffloadSteps);
  json["arguments"]["gradient_accumulation_steps"] = 2;
  json["arguments"]["max_grad_norm"] = 0.5;  // all steps are clipped
  GetParam().change(json);
  const OffloadedRun plain = run_offloaded(GetParam().objective, json, {});
  for (const Places& where : places()) {
    if (GetParam().objective != "sft" && !(where.state && where.gradients)) {
      continue;
    }
    SCOPED_TRACE(where.name);
    const OffloadedRun found = run_offloaded(GetParam().objective, json, where);
    expect_same(found, plain);
    for (const Json& step : found.observer.steps) {
      EXPECT_GT(step.at("moved_bytes"), 0);
      EXPECT_GT(step.at("host_bytes"), 0);
      if (where.state) {
        EXPECT_LT(step.at("memory").at("optimizer"),
                  plain.observer.steps[0].at("memory").at("optimizer"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Runs,
    OffloadedTraining,
    ::testing::Values(OffloadCase{"Sft", "sft"},
                      OffloadCase{
                          "SftInBfloat16", "sft", [](Json& run) { run["dtype"] = "bfloat16"; }},
                      OffloadCase{"SftWithAdapters",
                                  "sft",
                                  [](Json& run) {
                                    run["lora"] = {{"dropout", 0.2}};
                                  }},
                      OffloadCase{"SftOnAQuantizedBase",
                                  "sft",
                                  [](Json& run) {
                                    run["quantize"] = "nf4";
                                    run["lora"] = {{"dropout", 0.2}};
                                  }},
                      OffloadCase{"Dpo", "dpo"},
                      OffloadCase{"Kto", "kto"},
                      OffloadCase{"Reward", "reward"},
                      OffloadCase{"Prm", "prm"},
                      OffloadCase{"Kd", "kd"}),
    [](const auto& info) { return info.param.name; });

class Offloaded : public ::testing::Test {
 protected:
  Offloaded() { track_cpu_memory(); }
  CpuTiers tiers_;
};

TEST_F(Offloaded, OnlineTrainingIsTheSameToTheLastBit) {
  for (const auto estimator : {OnlineEstimator::Grpo, OnlineEstimator::Gae}) {
    const auto outcome = [&](const Places& where) {
      OnlineCase one(estimator, /*use_lora=*/false);
      one.options.training.max_steps = 3;
      place(one.options.training, where);
      const TemporaryFolder folder;
      CollectingObserver observer;
      one.train(observer, folder / "output");
      return std::pair(one.weights(), observer.all("loss"));
    };
    const auto plain = outcome({});
    for (const Places& where : places()) {
      SCOPED_TRACE(where.name);
      const auto found = outcome(where);
      expect_bitwise_equal(found.first, plain.first);
      EXPECT_EQ(found.second, plain.second);
    }
  }
}

/// Checkpoints say nothing of places, so a run may change them when it resumes.
TEST_F(Offloaded, RunsResumeInOtherPlaces) {
  const Json json = usual_run("sft", kOffloadSteps);
  const TemporaryFolder folder;
  std::vector<at::Tensor> weights[2];
  for (const bool is_moved : {false, true}) {
    for (const int64_t stop : {int64_t{2}, kOffloadSteps}) {
      TrainingCase one("sft", json, folder);
      one.options.output = folder / (is_moved ? "moved" : "plain");
      one.options.save_steps = 2;
      if (stop == kOffloadSteps) {
        one.resume_from = latest_checkpoint(one.options.output);
      }
      if (is_moved) {
        place(one.options, stop == kOffloadSteps ? Places{"", true, true} : places()[0]);
      }
      CollectingObserver observer;
      observer.stop_after = stop;
      one.train(observer);
      EXPECT_EQ(observer.steps.size(), 2);
      for (const auto& [name, parameter] : trained_parameters(*one.model)) {
        weights[is_moved ? 1 : 0].push_back(parameter.detach().clone());
      }
    }
  }
  expect_bitwise_equal(weights[1], weights[0]);
}

TEST_F(Offloaded, BudgetsOfEverythingArePredictedAndHeld) {
  Json json = usual_run("sft", kOffloadSteps);
  json["arguments"]["gradient_accumulation_steps"] = 2;
  const OffloadedRun plain = run_offloaded("sft", json, {});
  std::vector<int64_t> least;
  for (const Places& where : {Places{}, places()[0], places()[1], places()[2]}) {
    for (const char* amount : {"min", "0.9", "max"}) {
      SCOPED_TRACE(where.name + " " + amount);
      const OffloadedRun found = run_offloaded("sft", json, where, [&](TrainingCase& one) {
        one.model->enable_checkpointing();
        one.options.memory.total = parse_budget("`memory_budget`", amount);
        one.options.memory.may_offload_state = false;  // no more than is asked for
        one.options.memory.may_offload_gradients = false;
      });
      expect_same(found, plain);
      for (const Json& step : found.observer.steps) {
        const Json& budget = step.at("budget");
        EXPECT_LE(budget["measured_bytes"], budget["bytes"]) << step;
        EXPECT_LE(budget["predicted_bytes"], budget["bytes"]) << step;
      }
      if (std::string(amount) == "min") {
        least.push_back(found.observer.steps.back().at("budget")["bytes"].get<int64_t>());
      }
    }
  }
  EXPECT_LT(least[1], least[0]);
  EXPECT_LT(least[2], least[0]);
  EXPECT_LT(least[3], std::min(least[1], least[2]));
}

/// What a step takes: standing bytes, then activations. Ten budgets from the least to all.
TEST_F(Offloaded, ABudgetAloneChoosesWhatLeaves) {
  Json json = usual_run("sft", kOffloadSteps);
  json["dtype"] = "bfloat16";
  json["arguments"]["gradient_accumulation_steps"] = 2;  // gradients are there in a forward
  const auto within = [&](const std::string& amount) {
    return run_offloaded("sft", json, {}, [&](TrainingCase& one) {
      one.model->enable_checkpointing();
      one.options.memory.total = parse_budget("`memory_budget`", amount);
    });
  };
  const OffloadedRun plain = run_offloaded("sft", json, {});
  const auto budget_of = [](const OffloadedRun& run) {
    return run.observer.steps.back().at("budget").at("bytes").get<int64_t>();
  };
  within("min");  // what the first run of a process leaves behind is not the step's
  const int64_t least = budget_of(within("min")) * 101 / 100, most = budget_of(within("max"));
  ASSERT_LT(least, most);
  std::vector<std::string> chosen;
  std::vector<int64_t> moved;
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t bytes = least + (most - least) * i / 9;
    SCOPED_TRACE(bytes);
    const OffloadedRun found = within(std::to_string(bytes) + "B");
    expect_same(found, plain);
    for (const Json& step : found.observer.steps) {
      const Json& budget = step.at("budget");
      EXPECT_LE(budget["measured_bytes"], bytes) << step;
      EXPECT_LE(budget["predicted_bytes"], bytes) << step;
    }
    const Json& largest = *std::max_element(
        found.observer.steps.begin(), found.observer.steps.end(), [](const Json& a, const Json& b) {
          return a.at("budget").at("measured_bytes") < b.at("budget").at("measured_bytes");
        });
    const double predicted = largest.at("budget").at("predicted_bytes").get<double>();
    // No more than predicted, but for malloc's rounding. Some plans take up to a tenth less; why is
    // not known.
    const double measured = largest.at("budget").at("measured_bytes").get<double>();
    EXPECT_LE(measured, predicted * 1.03);
    EXPECT_GE(measured, predicted * 0.8);
    const Json& last = found.observer.steps.back();
    chosen.push_back(last.at("budget").at("in_host_memory").get<std::string>());
    moved.push_back(last.value("moved_bytes", int64_t{0}));
  }
  EXPECT_EQ(chosen.front(), "optimizer state and gradients");
  EXPECT_EQ(chosen.back(), "");
  EXPECT_TRUE(std::is_sorted(moved.rbegin(), moved.rend())) << "less memory, more to move";
  const auto message = message_of<c10::Error>([&] { within(std::to_string(least / 2) + "B"); });
  EXPECT_TRUE(contains(message, "is too small")) << message;
}

TEST_F(Offloaded, PlansInAFileSayWhatLeaves) {
  const Json json = usual_run("sft", kOffloadSteps);
  const TemporaryFolder folder;
  OffloadedRun runs[2];
  for (const bool is_read : {false, true}) {
    runs[is_read] = run_offloaded("sft", json, {}, [&](TrainingCase& one) {
      one.model->enable_checkpointing();
      one.options.output = folder / (is_read ? "read" : "made");
      if (is_read) {
        one.options.memory.plan_file = folder / "made" / "memory_plan.json";
      } else {
        one.options.memory.total = parse_budget("`memory_budget`", "min");
      }
    });
    EXPECT_EQ(runs[is_read].observer.steps.back().at("budget").at("in_host_memory"),
              "optimizer state and gradients");
  }
  expect_same(runs[1], runs[0]);
}

}  // namespace
}  // namespace reprise::testing
