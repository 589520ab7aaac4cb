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

BatchPlan plan_of(const TrainingJob& job, const TrainerOptions& options) {
  return {
      {job.data->size(), options.batch_size, options.accumulation}, options.seed, options.shuffle};
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
                plan_of(job, options).total_steps(options.epochs, options.max_steps)),
        job_(job),
        plan_(plan_of(job, options)),
        learner_("", job.objective.model(), options, total_, world) {}

 private:
  Json train_step() override {
    const auto start = Clock::now();
    const auto indices = plan_.micro_batches(state_.step);
    std::vector<Batch> batches;
    for (const auto& chosen : indices) {
      batches.push_back(collate_examples(*job_.data, chosen, options_.collate));
    }
    const auto outcome = learner_.step(state_.step, work_of(batches, indices));
    ++state_.step;
    job_.objective.after_step(state_.step);
    int64_t tokens = 0;
    for (const auto& batch : batches) {
      tokens += batch.main.tokens;
    }
    state_.tokens += static_cast<int64_t>(world_.sum(static_cast<double>(tokens)));
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

  StepWork work_of(const std::vector<Batch>& batches,
                   const std::vector<std::vector<int64_t>>& indices) {
    StepWork work;
    work.micro_batches = batches.size();
    work.total_weight = 0;
    for (const auto& batch : batches) {
      work.total_weight += job_.objective.weight(batch);
    }
    TORCH_CHECK(world_.sum(work.total_weight) > 0,
                "[train] step ",
                state_.step + 1,
                ": no token of its rows is trained on.");
    work.loss = [this, &batches](size_t i, const StepContext& context) {
      return job_.objective.loss(to_device(batches[i], learner_.model().device()), context);
    };
    work.shape = [&batches](size_t i) { return shape_of(batches[i]); };
    work.not_finite = [this, &indices](size_t i) {
      return describe_not_finite({job_.objective, *job_.data, options_.collate}, indices[i]);
    };
    work.frozen_bytes = job_.objective.frozen_bytes();
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
              job_.objective.complete(folder);
            },
            [this] { return job_.objective.state(); },
            [this](const SafetensorsFile& file) { job_.objective.load(file); }};
  }

  void save_average() override {
    const auto averaged = learner_.average()->swap();
    job_.save_model(options_.output / "ema");
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
