// train(): the loop over a data set. Each step collates its micro-batches and hands them to the
// learner.
#include <reprise/train/trainer.h>

#include "train/budget/auto_batch.h"
#include "train/budget/largest_batches.h"
#include "train/loop/batch_plan.h"
#include "train/loop/dataset_micro_batches.h"
#include "train/loop/evaluate.h"
#include "train/loop/run_loop.h"

#include <chrono>
#include <optional>

namespace reprise {

namespace {

using Clock = std::chrono::steady_clock;

BatchPlan plan_of(const TrainingJob& job, const TrainerOptions& options, const World& world) {
  const BatchPlan::Sizes sizes{
      job.data->size(), options.batch_size, options.accumulation, world.rank(), world.size()};
  return {sizes, options.seed, options.shuffle};
}

class DatasetRun final : public RunLoop {
 public:
  DatasetRun(const TrainingJob& job,
             const TrainerOptions& options,
             TrainingObserver& observer,
             const World& world)
      : RunLoop(options,
                observer,
                world,
                plan_of(job, options, world).total_steps(options.epochs, options.max_steps)),
        job_(job),
        plan_(plan_of(job, options, world)),
        learner_("", job.objective.model(), options, total_, world) {}

 private:
  void prepare() override {
    if (learner_.budget() == nullptr || !options_.memory.plan_file.empty()) {
      return;
    }
    DatasetMicroBatches largest(
        job_,
        options_.collate,
        largest_micro_batches(plan_, state_.step, total_, *job_.data, options_.collate));
    learner_.plan_ahead(largest, options_.accumulation > 1);
  }

  Json train_step() override {
    const auto start = Clock::now();
    std::optional<DatasetMicroBatches> micro_batches;
    world_.run_on_all("collating the rows of a step", [&] {
      micro_batches.emplace(job_, options_.collate, plan_.micro_batches(state_.step));
    });
    const auto outcome = learner_.step(state_.step, *micro_batches);
    ++state_.step;
    job_.objective.after_step(state_.step);
    const auto tokens = static_cast<int64_t>(
        world_.sum(static_cast<double>(micro_batches->tokens()), "the tokens of a step"));
    state_.tokens += tokens;
    note_outcome(outcome, learner_);
    const double planning_ms = outcome.budget ? outcome.budget->planning_in_step_ms : 0;
    const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
    Json record{{"step", state_.step},
                {"tokens", tokens},
                {"step_ms", taken.count() - planning_ms},
                {"epoch", plan_.epoch_after(state_.step)},
                {"num_tokens", state_.tokens}};
    learner_.write_metrics(outcome, record);
    return record;
  }

  bool has_evaluation() const override { return job_.eval_data != nullptr; }

  Json evaluate() override {
    return reprise::evaluate(
        {job_.objective, *job_.eval_data, options_.collate, options_.eval_batch_size},
        options_,
        world_);
  }

  double epoch_after(int64_t steps) const override { return plan_.epoch_after(steps); }
  bool ends_epoch(int64_t step) const override { return plan_.ends_epoch(step); }

  std::vector<Learner*> learners() override { return {&learner_}; }

  void save_models(const std::filesystem::path& folder) override {
    job_.save_model(folder);
    world_.run_on_first("completing " + folder.string(),
                        [&] { job_.objective.save_extras(folder); });
  }

  NamedTensors extra_state() const override { return job_.objective.state(); }
  void load_extra_state(const TensorFile& file) override { job_.objective.load(file); }

  void save_averaged_models(const std::filesystem::path& folder) override {
    job_.save_model(folder);
  }

  const TrainingJob& job_;
  BatchPlan plan_;
  Learner learner_;
};

}  // namespace

TrainingSummary train(const TrainingJob& job,
                      const TrainerOptions& options,
                      TrainingObserver& observer,
                      const World& world) {
  if (!options.auto_batch) {
    return DatasetRun(job, options, observer, world).run(job.resume_from);
  }
  const auto chosen = with_fastest_batch(job, options, observer, world);
  return DatasetRun(job, chosen, observer, world).run(job.resume_from);
}

}  // namespace reprise
