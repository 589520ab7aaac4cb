// The loop over a data set: collate the micro-batches of a step and let the learner take it.
#include <reprise/train/trainer.h>

#include "train/batch_plan.h"
#include "train/budget/auto_batch.h"
#include "train/evaluate.h"
#include "train/not_finite.h"
#include "train/run_loop.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>
#include <vector>

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
  Json train_step() override {
    const auto start = Clock::now();
    const auto rows = plan_.micro_batches(state_.step);
    std::vector<Batch> batches;
    world_.together("collating the rows of a step", [&] {
      for (const auto& each : rows) {
        batches.push_back(collate_rows(*job_.data, each, options_.collate));
      }
    });
    const auto outcome = learner_.step(state_.step, work_of(batches, rows));
    ++state_.step;
    job_.objective.after_step(state_.step);
    const int64_t tokens = tokens_of(batches, rows);
    state_.tokens += tokens;
    note_outcome(outcome, learner_);
    Json record{
        {"step", state_.step},
        {"tokens", tokens},
        {"step_ms", std::chrono::duration<double, std::milli>(Clock::now() - start).count()},
        {"epoch", plan_.epoch_after(state_.step)},
        {"num_tokens", state_.tokens}};
    learner_.describe(outcome, record);
    return record;
  }

  // Of all processes.
  int64_t tokens_of(const std::vector<Batch>& batches,
                    const std::vector<MicroBatchRows>& rows) const {
    double tokens = 0;
    for (size_t i = 0; i < batches.size(); ++i) {
      tokens += rows[i].is_filler ? 0 : static_cast<double>(batches[i].main.tokens);
    }
    return static_cast<int64_t>(world_.sum(tokens, "the tokens of a step"));
  }

  StepWork work_of(const std::vector<Batch>& batches, const std::vector<MicroBatchRows>& rows) {
    StepWork work;
    work.micro_batches = batches.size();
    work.total_weight = 0;
    for (size_t i = 0; i < batches.size(); ++i) {
      work.total_weight += rows[i].is_filler ? 0 : job_.objective.weight(batches[i]);
    }
    work.loss = [this, &batches, &rows](size_t i, StepContext context) {
      // What nobody measures is a rehearsal, which each process has when it needs one.
      context.is_joint = context.meter != nullptr;
      context.is_filler = rows[i].is_filler;
      return job_.objective.loss(to_device(batches[i], learner_.model().device()), context);
    };
    work.shape = [&batches](size_t i) { return shape_of(batches[i]); };
    work.not_finite = [this, &rows](size_t i) {
      return describe_not_finite({job_.objective, *job_.data, options_.collate}, rows[i].examples);
    };
    work.frozen_bytes = job_.objective.frozen_bytes();
    work.is_filler = [&rows](size_t i) { return rows[i].is_filler; };
    return work;
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

  RunParts parts() override {
    return {{&learner_},
            [this](const std::filesystem::path& folder) {
              job_.save_model(folder);
              world_.first_alone("completing " + folder.string(),
                                 [&] { job_.objective.complete(folder); });
            },
            [this] { return job_.objective.state(); },
            [this](const SafetensorsFile& file) { job_.objective.load(file); }};
  }

  void save_average() override {
    save_averaged(learner_, [this] { job_.save_model(options_.output / "ema"); });
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
