// Training within a budget: amounts as users write them, every objective to the last bit the same,
// budgets held on every step, and refusals that say what would do.
#include "support/bitwise.h"
#include "train/budget/largest_batches.h"
#include "train/collecting_observer.h"
#include "train/loop/collate_rows.h"
#include "train/training_case.h"

#include <reprise/train/memory_budget.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

constexpr const char* kOption = "`activation_memory_budget`";
constexpr int64_t kSteps = 5;

TEST(MemoryAmounts, AreReadWithTheirUnits) {
  const std::pair<const char*, int64_t> amounts[] = {{"4096B", 4096},
                                                     {"500MB", 500'000'000},
                                                     {"6GiB", int64_t{6} << 30},
                                                     {"1.5KiB", 1536},
                                                     {"2 TB", 2'000'000'000'000}};
  for (const auto& [text, bytes] : amounts) {
    EXPECT_EQ(parse_budget(kOption, text).bytes, bytes) << text;
    EXPECT_EQ(parse_bytes(kOption, text), bytes) << text;
  }
  EXPECT_EQ(parse_budget(kOption, "0.25").fraction, 0.25);
  EXPECT_EQ(parse_budget(kOption, "1").kind, Budget::Kind::Fraction);
  EXPECT_EQ(parse_budget(kOption, "min").kind, Budget::Kind::Min);
  EXPECT_EQ(parse_budget(kOption, "max").kind, Budget::Kind::Max);
  EXPECT_EQ(parse_budget(kOption, "auto").kind, Budget::Kind::Auto);
}

TEST(MemoryAmounts, ThatAreNoneAreRefusedWithWhatIsExpected) {
  const std::pair<const char*, const char*> wrong[] = {{"6", "6GiB"},
                                                       {"0", "above 0 and up to 1"},
                                                       {"-0.5", "above 0 and up to 1"},
                                                       {"-6GiB", "from 1B to 1024TiB"},
                                                       {"9999999TiB", "from 1B to 1024TiB"},
                                                       {"1e400GiB", "expected bytes with a unit"},
                                                       {"6gib", "is no unit"},
                                                       {"6 parsecs", "is no unit"},
                                                       {"nan", "expected bytes with a unit"},
                                                       {"infGiB", "expected bytes with a unit"},
                                                       {"", "expected bytes with a unit"},
                                                       {"lots", "expected bytes with a unit"}};
  for (const auto& amount : wrong) {
    const auto message = message_of<c10::Error>([&] { parse_budget(kOption, amount.first); });
    EXPECT_TRUE(contains(message, amount.second)) << amount.first << ": " << message;
    EXPECT_TRUE(contains(message, kOption)) << amount.first << ": " << message;
  }
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_bytes(kOption, "0.5"); }), "64GiB"));
}

struct Outcome {
  CollectingObserver observer;
  std::vector<at::Tensor> weights;
};

Outcome run(const std::string& objective, const Json& json, const MemoryLimits& limits) {
  const TemporaryFolder folder;
  TrainingCase one(objective, json, folder);
  if (limits.is_set()) {
    one.model->enable_checkpointing();
    one.options.memory = limits;
  }
  Outcome outcome;
  one.train(outcome.observer);
  for (const auto& [name, parameter] : trained_parameters(*one.model)) {
    outcome.weights.push_back(parameter.detach().clone());
  }
  return outcome;
}

Json run_of(const std::string& objective) {
  Json json = usual_run(objective, kSteps);
  json["arguments"]["gradient_accumulation_steps"] = 2;
  return json;
}

void expect_held(const Outcome& found) {
  for (const Json& step : found.observer.steps) {
    const Json& budget = step.at("budget");
    EXPECT_GT(budget["measured_bytes"], 0);
    EXPECT_LE(budget["measured_bytes"], budget["bytes"]) << step;
    EXPECT_LE(budget["predicted_bytes"], budget["bytes"]) << step;
  }
}

class BudgetedTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(BudgetedTraining, IsTheSameToTheLastBitWithinItsBytes) {
  const Json json = run_of(GetParam());
  const Outcome plain = run(GetParam(), json, {});
  for (const char* amount : {"min", "0.85", "max"}) {
    SCOPED_TRACE(amount);
    const auto found = run(GetParam(), json, {.activations = parse_budget(kOption, amount)});
    EXPECT_EQ(found.observer.all("loss"), plain.observer.all("loss"));
    EXPECT_EQ(found.observer.all("grad_norm"), plain.observer.all("grad_norm"));
    expect_bitwise_equal(found.weights, plain.weights);
    expect_held(found);
    // The largest micro-batch of the run sets the budget; smaller ones may need no recompute.
    const auto recomputed = found.observer.all("regions_recomputed");
    const bool recomputes = *std::max_element(recomputed.begin(), recomputed.end()) > 0;
    EXPECT_EQ(recomputes, std::string(amount) != "max");
  }
}

TEST_P(BudgetedTraining, HoldsABudgetOfEverything) {
  const Json json = run_of(GetParam());
  const Outcome plain = run(GetParam(), json, {});
  for (const char* amount : {"min", "0.9"}) {
    SCOPED_TRACE(amount);
    const auto found = run(GetParam(), json, {.total = parse_budget("`memory_budget`", amount)});
    expect_bitwise_equal(found.weights, plain.weights);
    expect_held(found);
    EXPECT_LE(found.observer.steps.back()["peak_bytes"],
              found.observer.steps.back()["budget"]["bytes"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Objectives,
                         BudgetedTraining,
                         ::testing::Values("sft", "dpo", "kto", "reward", "prm", "kd"));

TEST(MemoryBudgets, NewLengthsArePlannedWithoutATraceBetweenTwo) {
  // Rows of the fixtures differ in length, and every micro-batch is as wide as its longest.
  Json json = usual_run("sft", 12);
  json["arguments"]["per_device_train_batch_size"] = 1;
  const auto found = run("sft", json, {.activations = parse_budget(kOption, "0.8")});
  expect_held(found);
  size_t planned = 0;
  for (const Json& step : found.observer.steps) {
    planned += step["budget"]["planning_ms"].get<double>() > 1 ? 1 : 0;
  }
  EXPECT_LT(planned, found.observer.steps.size());
}

TEST(MemoryBudgets, ThatAreTooSmallAreRefusedAtTheStartWithWhatTheWholeRunNeeds) {
  // Micro-batches of one row: the longest comes late. Also with a budget of everything.
  Json json = usual_run("sft", 12);
  json["arguments"]["per_device_train_batch_size"] = 1;
  for (const bool is_total : {false, true}) {
    const auto limits = [is_total](const std::string& text) {
      MemoryLimits limits;
      (is_total ? limits.total : limits.activations) = parse_budget(kOption, text);
      return limits;
    };
    const auto message = message_of<c10::Error>([&] { run("sft", json, limits("1KB")); });
    const std::string start = "is too small: the least for this run, whose largest micro-batch has";
    ASSERT_TRUE(contains(message, start)) << message;
    // What it says is enough, to the last step.
    const auto least = message.substr(message.find(start));
    const auto bytes = least.substr(least.find('(') + 1, least.find(')') - least.find('(') - 1);
    EXPECT_EQ(run("sft", json, limits(bytes)).observer.steps.size(), 12u) << bytes;
  }
}

TEST(MemoryBudgets, AreComparedWithTheLargestMicroBatchesOfTheRun) {
  const TemporaryFolder folder;
  Json json = usual_run("sft", 12);
  json["arguments"]["per_device_train_batch_size"] = 2;
  const TrainingCase one("sft", json, folder);
  const BatchPlan plan({one.data->size(), 2, 1, 0, 1}, one.options.seed, one.options.shuffle);
  const auto tokens = [&](const MicroBatchRows& rows) {
    const auto& batch = collate_examples(*one.data, rows.examples, one.options.collate);
    return batch.main.input_ids.numel();
  };
  int64_t most = 0;
  BatchPlan walked = plan;
  for (int64_t step = 3; step < 12; ++step) {
    for (const auto& rows : walked.micro_batches(step)) {
      most = std::max(most, tokens(rows));
    }
  }
  const auto largest = largest_micro_batches(plan, 3, 12, *one.data, one.options.collate);
  ASSERT_FALSE(largest.empty());
  EXPECT_EQ(tokens(largest.front()), most);
  EXPECT_TRUE(largest_micro_batches(plan, 5, 5, *one.data, one.options.collate).empty());
}

/// 8 rows a step; each size up to what fits is tried, and the rows of a step stay the same.
TEST(MemoryBudgets, CanChooseTheMicroBatch) {
  struct Listener : CollectingObserver {
    void on_batch_size_chosen(const std::vector<BatchTrial>& found,
                              int64_t batch_size,
                              int64_t accumulation) override {
      trials = found;
      rows = batch_size * accumulation;
    }
    std::vector<BatchTrial> trials;
    int64_t rows = 0;
  };
  const TemporaryFolder folder;
  TrainingCase one("sft", run_of("sft"), folder);
  one.model->enable_checkpointing();
  one.options.memory.activations = Budget{.kind = Budget::Kind::Max};
  one.options.auto_batch = true;
  Listener observer;
  one.train(observer);
  ASSERT_EQ(observer.trials.size(), 4);  // 1, 2, 4, 8
  EXPECT_EQ(observer.rows, 8);
  int64_t before = 0;
  for (const BatchTrial& trial : observer.trials) {
    EXPECT_GT(trial.tokens_per_second, 0);
    EXPECT_GT(trial.predicted_bytes, before) << trial.batch_size;
    before = trial.predicted_bytes;
  }
  // A budget between the needs of two sizes ends the trials there.
  TrainingCase small("sft", run_of("sft"), folder);
  small.model->enable_checkpointing();
  small.options.output = folder / "small";
  small.options.memory.activations =
      Budget{.kind = Budget::Kind::Bytes, .bytes = observer.trials[1].predicted_bytes * 11 / 10};
  small.options.auto_batch = true;
  Listener few;
  small.train(few);
  EXPECT_LT(few.trials.size(), 4);
  expect_held({few, {}});
}

/// Its first pass, which is the trace of the largest micro-batch, takes a while.
class SlowlyTraced final : public TrainingObjective {
 public:
  explicit SlowlyTraced(TrainingObjective& objective) : objective_(objective) {}
  Model& model() const override { return objective_.model(); }
  double weight(const Batch& batch) const override { return objective_.weight(batch); }
  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    if (std::exchange(is_first_, false)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    }
    return objective_.loss(batch, context);
  }

 private:
  TrainingObjective& objective_;
  bool is_first_ = true;
};

TEST(MemoryBudgets, SayOnceWhatIsPlannedIfThatTakesLongerThanASecond) {
  struct Listener final : CollectingObserver {
    void on_planning(int64_t rows, int64_t length) override { planned.emplace_back(rows, length); }
    std::vector<std::pair<int64_t, int64_t>> planned;
  };
  const TemporaryFolder folder;
  TrainingCase one("sft", run_of("sft"), folder);
  one.model->enable_checkpointing();
  one.options.memory.activations = Budget{.kind = Budget::Kind::Min};
  SlowlyTraced objective(*one.objective);
  Listener observer;
  one.train(objective, observer);
  ASSERT_FALSE(observer.planned.empty());
  EXPECT_EQ(observer.planned.front().first, one.options.batch_size);
  const std::set<std::pair<int64_t, int64_t>> shapes(observer.planned.begin(),
                                                     observer.planned.end());
  EXPECT_EQ(shapes.size(), observer.planned.size());
}

/// Trains within limits in a folder that stays.
CollectingObserver train_in(const std::filesystem::path& output,
                            const Json& json,
                            const MemoryLimits& limits) {
  const TemporaryFolder folder;
  TrainingCase one("sft", json, folder);
  one.model->enable_checkpointing();
  one.options.memory = limits;
  one.options.output = output;
  CollectingObserver observer;
  one.train(observer);
  return observer;
}

TEST(MemoryBudgets, LeaveTheirPlansForOtherRunsOfTheModel) {
  const TemporaryFolder folder;
  const Json json = run_of("sft");
  const auto first =
      train_in(folder / "first", json, {.activations = parse_budget(kOption, "0.85")});
  EXPECT_TRUE(std::filesystem::exists(folder / "first" / "memory.html"));
  const auto plans = folder / "first" / "memory_plan.json";
  const auto second = train_in(folder / "second", json, {.plan_file = plans});
  EXPECT_EQ(second.all("loss"), first.all("loss"));
  for (size_t i = 0; i < second.steps.size(); ++i) {
    EXPECT_EQ(second.steps[i]["regions_recomputed"], first.steps[i]["regions_recomputed"]);
    EXPECT_EQ(second.steps[i]["budget"]["predicted_bytes"],
              first.steps[i]["budget"]["predicted_bytes"]);
    EXPECT_LE(second.steps[i]["budget"]["measured_bytes"], second.steps[i]["budget"]["bytes"]);
  }

  Json adapted = json;
  adapted["lora"] = Json::object();
  const auto message =
      message_of<c10::Error>([&] { train_in(folder / "third", adapted, {.plan_file = plans}); });
  EXPECT_TRUE(contains(message, "these plans are for another model")) << message;
}

TEST(MemoryBudgets, AboveTheDeviceAreRefused) {
  const auto message = message_of<c10::Error>(
      [] { run("sft", run_of("sft"), {.total = parse_budget("`memory_budget`", "900TiB")}); });
  EXPECT_TRUE(contains(message, "`memory_budget` 900 TiB: cpu has")) << message;
}

}  // namespace
}  // namespace reprise::testing
