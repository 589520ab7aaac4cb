// What an evaluation says and leaves behind: its mean, its scale of rewards, and what becomes of
// one that gives no number or does not fit into memory.
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>
#include <reprise/report/metrics_file.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Passes everything on, but losses of evaluations through a function.
class WithOddEvaluations final : public TrainingObjective {
 public:
  using Change = std::function<at::Tensor(int64_t evaluation, const at::Tensor& loss)>;
  WithOddEvaluations(TrainingObjective& inner, Change change)
      : inner_(inner), change_(std::move(change)) {}

  double weight(const Batch& batch) const override { return inner_.weight(batch); }
  double evaluation_weight(const Batch& batch) const override {
    return inner_.evaluation_weight(batch);
  }
  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    BatchLoss result = inner_.loss(batch, context);
    if (context.is_evaluation) {
      result.part = change_(evaluations_, result.part);
    }
    return result;
  }
  Model& model() const override { return inner_.model(); }
  void begin_evaluation() override {
    ++evaluations_;
    inner_.begin_evaluation();
  }

 private:
  TrainingObjective& inner_;
  Change change_;
  int64_t evaluations_ = 0;  // begun
};

class Evaluation : public ::testing::Test {
 protected:
  /// Evaluated after every step, on the data it is trained on.
  TrainingCase make(const std::string& objective,
                    int64_t steps,
                    const Json& more = Json::object()) {
    Json run = usual_run(objective, steps);
    run["eval_data"] = run["data"];
    run.merge_patch(more);
    TrainingCase one(objective, run, folder_);
    one.options.eval_steps = 1;
    one.options.save_steps = 0;
    return one;
  }

  TemporaryFolder folder_;
  CollectingObserver observer_;
};

/// The last batch is one row: were batches worth the same, it would count as much as all others.
TEST_F(Evaluation, IsTheMeanOverAllRowsWhateverTheBatches) {
  const std::vector<std::pair<std::string, Json>> runs = {
      {"dpo", Json::object()},
      {"reward", Json::object()},
      {"prm", {{"arguments", {{"train_on_last_step_only", true}}}}},  // a label a row
      // The usual loss has a term that is of the batch, not of a row.
      {"kto", {{"arguments", {{"loss_type", "apo_zero_unpaired"}}}}}};
  for (const auto& [objective, more] : runs) {
    SCOPED_TRACE(objective);
    std::vector<double> losses;
    for (const int64_t less : {1, 0}) {
      auto one = make(objective, 1, more);
      one.options.output = folder_ / (objective + std::to_string(less));
      one.options.eval_batch_size = one.eval_data->size() - less;
      CollectingObserver observer;
      one.train(observer);
      losses.push_back(observer.evaluations.at(0)["eval_loss"].get<double>());
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-5);
  }
}

TEST_F(Evaluation, ThatIsNotANumberIsNeverTheBestAndIsNoted) {
  auto one = make("sft", 3);
  one.options.best_metric = "eval_loss";
  WithOddEvaluations odd(*one.objective, [](int64_t evaluation, const at::Tensor& loss) {
    return evaluation == 1 ? loss * std::numeric_limits<double>::quiet_NaN() : loss;
  });
  const auto summary = one.train(odd, observer_);
  EXPECT_EQ(summary.best_checkpoint, one.options.output / "checkpoint-3");
  ASSERT_EQ(observer_.evaluations.size(), 3);
  EXPECT_TRUE(std::isnan(observer_.evaluations[0]["eval_loss"].get<double>()));
  EXPECT_EQ(observer_.evaluations[0].value("eval_note", ""),
            "eval_loss: not a number, which is worse than every other value");
  EXPECT_FALSE(observer_.evaluations[1].contains("eval_note"));
  EXPECT_FALSE(std::filesystem::exists(one.options.output / "checkpoint-1"));
  for (const Json& record : MetricsFile::read(one.options.output / "metrics.jsonl")) {
    EXPECT_EQ(record.contains("eval_note"), record.contains("eval_loss") && record["step"] == 1);
  }
}

TEST_F(Evaluation, ThatIsNotANumberUsesUpPatience) {
  auto one = make("sft", 9);
  one.options.best_metric = "eval_loss";
  one.options.early_stopping_patience = 2;
  WithOddEvaluations odd(*one.objective, [](int64_t, const at::Tensor& loss) {
    return loss * std::numeric_limits<double>::quiet_NaN();
  });
  const auto summary = one.train(odd, observer_);
  EXPECT_EQ(summary.end, TrainingEnd::EarlyStopped);
  EXPECT_EQ(summary.progress.step, 2);
  EXPECT_TRUE(summary.best_checkpoint.empty());
}

TEST_F(Evaluation, WithoutMemoryNamesTheBatchSizeThatWouldHelp) {
  auto one = make("sft", 1);
  one.options.eval_batch_size = 6;
  WithOddEvaluations odd(*one.objective,
                         [](int64_t, const at::Tensor&) -> at::Tensor { throw std::bad_alloc(); });
  const std::string error = error_of([&] { one.train(odd, observer_); });
  for (const char* part : {"out of memory in the evaluation, with a batch of 6 x ",
                           "\n  parameters: ",
                           "\n  `per_device_eval_batch_size` 3: ",
                           "\n  `max_length` "}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << " is not in: " << error;
  }
}

TEST_F(Evaluation, OfAnAdapterLeavesItsScaleOfRewardsBesideIt) {
  auto one = make("reward", 1, {{"lora", Json::object()}});
  one.options.save_steps = 1;
  one.train(observer_);
  const auto checkpoint = latest_checkpoint(one.options.output);
  EXPECT_FALSE(std::filesystem::exists(checkpoint / "config.json"));
  const Json scale = read_json(checkpoint / "reward_statistics.json");
  EXPECT_NEAR(scale["reward_mean"].get<double>(),
              observer_.evaluations.at(0)["eval_mean_reward"].get<double>(),
              1e-6);
  EXPECT_GT(scale["reward_std"], 0);
}

/// By "greater is better" the first evaluation stays the best, as the loss falls.
TEST_F(Evaluation, OfTheBestCheckpointComesBackWithItsScaleOfRewards) {
  auto one = make("reward", 3);
  one.options.best_metric = "eval_loss";
  one.options.greater_is_better = true;
  const auto summary = one.train(observer_);
  ASSERT_EQ(summary.best_checkpoint, one.options.output / "checkpoint-1");
  const auto mean_in = [](const std::filesystem::path& folder) {
    return read_json(folder / "config.json")["reward_mean"].get<double>();
  };
  const auto mean_of = [&](size_t i) {
    return observer_.evaluations.at(i)["eval_mean_reward"].get<double>();
  };
  one.save(folder_ / "last");
  one.objective->save_extras(folder_ / "last");
  load_trained(*one.model, summary.best_checkpoint);
  one.objective->load(TensorFile(summary.best_checkpoint / "objective.safetensors"));
  one.save(folder_ / "best");
  one.objective->save_extras(folder_ / "best");
  ASSERT_GT(std::abs(mean_of(0) - mean_of(2)), 1e-4);
  EXPECT_NEAR(mean_in(folder_ / "last"), mean_of(2), 1e-6);
  EXPECT_NEAR(mean_in(folder_ / "best"), mean_of(0), 1e-6);
}

}  // namespace
}  // namespace reprise::testing
