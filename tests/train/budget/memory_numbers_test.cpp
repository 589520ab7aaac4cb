// The memory numbers of a run mean what they are called: what checkpointing saves is what a plain
// run keeps, a budget limits the number that is shown, pages agree, and planning is no training.
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <reprise/io/file.h>
#include <reprise/report/units.h>
#include <reprise/train/memory_budget.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

constexpr const char* kBudgetOption = "`activation_memory_budget`";

using Way = std::function<void(TrainingCase&)>;

CollectingObserver train_with(const std::string& objective, const Json& json, const Way& way) {
  const TemporaryFolder folder;
  TrainingCase one(objective, json, folder);
  way(one);
  CollectingObserver observer;
  one.train(observer);
  return observer;
}

Json short_run(const std::string& objective, bool has_lora) {
  Json json = usual_run(objective, 3);
  json["arguments"]["gradient_accumulation_steps"] = 2;  // of different lengths
  if (has_lora) {
    json.erase("reference");
    json["lora"] = Json::object();
  }
  return json;
}

Way with_budget(const std::string& text) {
  return [text](TrainingCase& one) {
    one.model->enable_checkpointing();
    one.options.memory.activations = parse_budget(kBudgetOption, text);
  };
}

Way with_policy(const std::string& name) {
  return [name](TrainingCase& one) {
    one.model->enable_checkpointing(BlockChoice::all(), checkpoint_options_named(name));
  };
}

// Within 3 %, in every way to save memory. With adapters the embeddings are frozen, so a plain run
// frees the first block's input; blocks that a budget joins count it: 4 % more of this small run.
TEST(MemoryNumbers, WhatIsSavedIsWhatAPlainRunKeeps) {
  const std::pair<const char*, Way> ways[] = {
      {"plain", [](TrainingCase&) {}},
      {"full", with_policy("full")},
      {"matmuls", with_policy("matmuls")},
      {"attention", with_policy("attention")},
      {"half of the blocks",
       [](TrainingCase& one) { one.model->enable_checkpointing(BlockChoice::every(2)); }},
      {"min", with_budget("min")},
      {"0.7", with_budget("0.7")},
      {"0.85", with_budget("0.85")},
      {"max", with_budget("max")}};
  for (const char* objective : {"sft", "dpo"}) {
    for (const bool has_lora : {false, true}) {
      const Json json = short_run(objective, has_lora);
      const auto plain = train_with(objective, json, [](TrainingCase&) {}).all("activation_bytes");
      for (const auto& [name, way] : ways) {
        SCOPED_TRACE(std::string(objective) + (has_lora ? ", lora, " : ", ") + name);
        const auto found = train_with(objective, json, way).all("estimated_activation_bytes");
        ASSERT_EQ(found.size(), plain.size());
        for (size_t i = 0; i < plain.size(); ++i) {
          EXPECT_NEAR(found[i] / plain[i], 1, has_lora ? 0.07 : 0.03) << "step " << i + 1;
        }
      }
    }
  }
}

TEST(MemoryNumbers, ABudgetLimitsTheNumberThatIsShown) {
  const Json json = short_run("sft", false);
  const auto peak = [](const CollectingObserver& observer) {
    const auto peaks = observer.all("activation_peak_bytes");
    return static_cast<int64_t>(*std::max_element(peaks.begin(), peaks.end()));
  };
  const auto bytes = [](int64_t count) {
    return std::to_string(budget_for(count * 11 / 10, c10::kCPU)) + "B";
  };
  const auto plain = train_with("sft", json, [](TrainingCase&) {});
  const auto full = train_with("sft", json, with_policy("full"));
  ASSERT_TRUE(full.first_effect.has_value());
  EXPECT_EQ(full.first_effect->activation_peak_bytes, full.steps[0]["activation_peak_bytes"]);
  EXPECT_GE(peak(plain), plain.all("activation_bytes")[0]);
  // What a plain run shows is enough to recompute nothing, what a full recompute shows to run.
  const auto roomy = train_with("sft", json, with_budget(bytes(peak(plain))));
  EXPECT_EQ(roomy.all("regions_recomputed"), (std::vector<double>{0, 0, 0}));
  const auto tight = train_with("sft", json, with_budget(bytes(peak(full))));
  for (const auto& observer : {roomy, tight}) {
    for (const Json& step : observer.steps) {
      EXPECT_EQ(step["budget"]["measured_bytes"], step["activation_peak_bytes"]);
    }
  }
}

// Also where the budget is for everything, where another watch is on.
TEST(MemoryNumbers, ClassesAddUpToThePeakInEveryWay) {
  const std::pair<const char*, Way> ways[] = {{"plain", [](TrainingCase&) {}},
                                              {"full", with_policy("full")},
                                              {"min", with_budget("min")},
                                              {"total", [](TrainingCase& one) {
                                                 one.model->enable_checkpointing();
                                                 one.options.memory.total =
                                                     parse_budget("`memory_budget`", "0.9");
                                               }}};
  for (const auto& [name, way] : ways) {
    SCOPED_TRACE(name);
    for (const Json& step : train_with("sft", short_run("sft", false), way).steps) {
      int64_t sum = 0;
      for (const auto& [part, bytes] : step["memory"].items()) {
        EXPECT_GE(bytes.get<int64_t>(), 0) << part << ": " << step["memory"];
        sum += bytes.get<int64_t>();
      }
      EXPECT_EQ(sum, step["peak_bytes"]);
      EXPECT_GT(step["activation_peak_bytes"], 0);
    }
  }
}

TEST(MemoryNumbers, TheMemoryPageHasThePeakOfTheRun) {
  const TemporaryFolder folder;
  TrainingCase one("sft", short_run("sft", false), folder);
  with_budget("0.85")(one);
  one.options.output = folder / "output";
  CollectingObserver observer;
  one.train(observer);
  const auto peaks = observer.all("peak_bytes");
  const double highest = *std::max_element(peaks.begin(), peaks.end());
  const auto page = read_file(folder / "output" / "memory.html");
  EXPECT_NE(page.find(human_bytes(highest)), std::string::npos) << human_bytes(highest);
}

TEST(MemoryNumbers, PlanningIsNoPartOfTheStepsTimes) {
  using Clock = std::chrono::steady_clock;
  Json json = usual_run("sft", 6);
  json["arguments"]["per_device_train_batch_size"] = 1;
  const auto start = Clock::now();
  const auto observer = train_with("sft", json, with_budget("0.8"));
  const double all = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  double planning = 0, steps = 0;
  for (const Json& step : observer.steps) {
    planning += step["budget"]["planning_ms"].get<double>();
    steps += step["step_ms"].get<double>();
  }
  EXPECT_GT(observer.steps[0]["budget"]["planning_ms"], 0);
  EXPECT_LE(planning + steps, all);  // no moment counts twice
}

}  // namespace
}  // namespace reprise::testing
