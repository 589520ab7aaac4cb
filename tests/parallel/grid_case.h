// One cell of the equality grid: a short training of a tiny model, in a world or alone.
#pragma once

#include "parallel/random_rows.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/online/online_case.h"
#include "train/training_case.h"

#include <reprise/model/pretrained.h>
#include <reprise/parallel/shard.h>
#include <reprise/train/sft.h>

#include <optional>
#include <string>

namespace reprise::testing {

constexpr int64_t kGridSteps = 10;
constexpr int64_t kGridRows = 12;  ///< of a step, over all processes

struct GridCase {
  std::string task;  ///< "family:llama", or an objective
  bool has_lora = false;
  std::string policy = "none";  ///< of memory
  std::string strategy = {};    ///< empty: one process that knows of no world

  std::string name() const {
    return task + (has_lora ? " lora" : "") + " " + policy + " " + strategy;
  }
  Json to_json() const {
    return {{"task", task}, {"lora", has_lora}, {"policy", policy}, {"strategy", strategy}};
  }
  static GridCase from_json(const Json& json) {
    return {json["task"], json["lora"], json["policy"], json["strategy"]};
  }
};

inline void apply_policy(Model& model, const std::string& policy) {
  if (policy != "none") {
    model.enable_checkpointing(BlockChoice::all(), checkpoint_options_named(policy));
  }
}

/// The rows of a step are dealt to processes, one at a time unless micro-batches matter.
inline void deal(TrainerOptions& options, int64_t processes, int64_t rows_at_once) {
  options.batch_size = rows_at_once;
  options.accumulation = kGridRows / processes / rows_at_once;
  options.max_steps = kGridSteps;
  options.save_steps = 0;
  options.dropout = false;
}

inline CollectingObserver run_family(const GridCase& one, const World& world) {
  const TemporaryFolder folder;
  const auto family = one.task.substr(one.task.find(':') + 1);
  auto model = load_model(fixtures() / "models" / family).model;
  if (one.has_lora) {
    LoraConfig config;
    config.rank = 4;
    add_lora(*model, config, /*seed=*/3);
  }
  // Before for some, after for others: both must do.
  if (one.has_lora) {
    apply_policy(*model, one.policy);
  }
  if (!one.strategy.empty()) {
    shard(*model, world, {.strategy = parallel_named(one.strategy)});
  }
  if (!one.has_lora) {
    apply_policy(*model, one.policy);
  }
  TrainerOptions options;
  deal(options, world.size(), 1);
  options.learning_rate = 2e-5;  // the default
  options.output = folder.path() / std::to_string(world.rank());
  const auto objective = make_sft(model);
  // 30 rows: an epoch's last step has half of what a step has, so that processes run dry.
  const auto data = std::make_shared<RandomRows>(30, model->config().vocabulary);
  CollectingObserver observer;
  train({*objective, data, nullptr, [](const auto&) {}}, options, observer, world);
  return observer;
}

/// So many of a data set's rows.
class FirstRows final : public Dataset {
 public:
  FirstRows(std::shared_ptr<const Dataset> all, int64_t size) : all_(std::move(all)), size_(size) {}
  int64_t size() const override { return size_; }
  Example at(int64_t index) const override { return all_->at(index); }
  int64_t length(int64_t index) const override { return all_->length(index); }
  std::string location_name(const RowLocation& location) const override {
    return all_->location_name(location);
  }

 private:
  std::shared_ptr<const Dataset> all_;
  int64_t size_;
};

inline CollectingObserver run_objective(const GridCase& one, const World& world) {
  const TemporaryFolder folder;
  auto run = usual_run(one.task, kGridSteps);
  // Losses of differences: in float32 most of a policy's loss, or of its gradient, is rounding.
  run["dtype"] = "float64";
  if (one.has_lora) {
    run["lora"] = {{"dropout", 0.0}};
  }
  std::optional<TrainingCase::InWorld> in_world;
  if (!one.strategy.empty()) {
    in_world.emplace(TrainingCase::InWorld{world, parallel_named(one.strategy)});
  }
  TrainingCase made(one.task, run, folder, in_world);
  apply_policy(*made.model, one.policy);
  // KTO's estimate is over the rows that all processes have at once, and its loss a mean of means:
  // a last step of fewer rows would have other means.
  if (one.task == "kto") {
    made.data = std::make_shared<FirstRows>(made.data, 2 * kGridRows);
  }
  deal(made.options, world.size(), one.task == "kto" ? kGridRows / world.size() : 1);
  made.options.learning_rate = 2e-5;  // the default
  CollectingObserver observer;
  made.train(observer);
  return observer;
}

inline CollectingObserver run_online_case(const GridCase& one, const World& world) {
  const TemporaryFolder folder;
  OnlineCase made(
      one.task == "ppo" ? OnlineEstimator::Gae : OnlineEstimator::Grpo, one.has_lora, at::kDouble);
  made.add_reference_in_loss(0.05);
  deal(made.options.training, world.size(), 1);
  made.options.rollout.generate.samples_per_prompt = one.task == "ppo" ? 1 : 4;
  made.options.training.learning_rate = 2e-5;  // the default
  if (one.policy != "none") {
    made.checkpoint(checkpoint_options_named(one.policy));
  }
  if (!one.strategy.empty()) {
    made.shard_over(world, parallel_named(one.strategy));
  }
  CollectingObserver observer;
  made.train(observer, folder.path() / std::to_string(world.rank()));
  return observer;
}

inline Json run_case(const GridCase& one, const World& world) {
  const auto observer = one.task.starts_with("family:")           ? run_family(one, world)
                        : one.task == "ppo" || one.task == "grpo" ? run_online_case(one, world)
                                                                  : run_objective(one, world);
  return {{"loss", observer.all("loss")}, {"grad_norm", observer.all("grad_norm")}};
}

}  // namespace reprise::testing
