#include "train/run_loop.h"

#include "train/best_evaluation.h"
#include "train/budget/budget_files.h"
#include "train/rng_state.h"

#include <string>
#include <vector>

namespace reprise {

TrainingObserver::~TrainingObserver() = default;
void TrainingObserver::chose_batch(const std::vector<BatchTrial>&, int64_t, int64_t) {}
void TrainingObserver::begin(const RunProgress&, const EffectCheck&) {}
void TrainingObserver::step(const RunProgress&, const Json&) {}
void TrainingObserver::effect(const CheckpointingEffect&, int64_t) {}
void TrainingObserver::evaluated(const RunProgress&, const Json&) {}
void TrainingObserver::saved(const std::filesystem::path&) {}
bool TrainingObserver::should_stop() const {
  return false;
}

RunLoop::RunLoop(const TrainerOptions& options,
                 TrainingObserver& observer,
                 const World& world,
                 int64_t total_steps)
    : options_(options), observer_(observer), world_(world), total_(total_steps) {}

TrainingSummary RunLoop::run(const std::filesystem::path& resume_from) {
  begin(resume_from);
  TrainingSummary summary;
  while (state_.step < total_ && summary.end == TrainingEnd::Done) {
    summary.end = advance();
  }
  world_.first_alone("writing the memory plan", [&] { save_plans(/*is_end=*/true); });
  summary.progress = progress();
  summary.train_loss = steps_ > 0 ? loss_sum_ / static_cast<double>(steps_) : 0;
  if (summary.end == TrainingEnd::Stopped) {
    save();
  } else if (options_.ema_decay > 0) {
    save_average();
  }
  if (state_.best_step > 0) {
    summary.best_checkpoint = options_.output / ("checkpoint-" + std::to_string(state_.best_step));
  }
  return summary;
}

void RunLoop::begin(const std::filesystem::path& resume_from) {
  const auto all = parts();
  for (const auto* learner : all.learners) {
    learner->model().train(options_.dropout);
  }
  seed_everything(options_.seed, all.learners.front()->model().device(), world_);
  if (!resume_from.empty()) {
    state_ = load_snapshot(resume_from, all, world_, options_.seed);
  }
  world_.first_alone("preparing the output folder", [&] {
    prepare_output(options_.output, resume_from, state_);
    metrics_ = std::make_unique<MetricsFile>(options_.output / "metrics.jsonl");
    metrics_->cut_back(state_.step);
  });
  observer_.begin(progress(), all.learners.front()->effect());
}

// One step and what follows it.
TrainingEnd RunLoop::advance() {
  const Json record = train_step();
  ++steps_;
  world_.together("writing down a step", [&] {
    if (metrics_ != nullptr) {
      metrics_->append(record);
    }
    save_plans(/*is_end=*/false);
    observer_.step(progress(), record);
  });
  TrainingEnd end = TrainingEnd::Done;
  if (evaluates_now()) {
    end = evaluate_now();
  }
  const bool is_last = state_.step >= total_;
  if (saves_now()) {
    save();
  }
  return end == TrainingEnd::Done && !is_last && should_stop() ? TrainingEnd::Stopped : end;
}

// A signal may reach one process only.
bool RunLoop::should_stop() const {
  return world_.max(observer_.should_stop() ? 1 : 0, "whether to stop") > 0;
}

void RunLoop::save_averaged(const Learner& learner, const std::function<void()>& save_model) const {
  auto* const keeper = learner.model().keeper();
  const auto refresh = [&] {
    if (keeper != nullptr) {
      keeper->refresh();
    }
  };
  {
    const auto averaged = learner.average()->swap();
    refresh();
    save_model();
  }
  refresh();
}

void RunLoop::note_outcome(const StepOutcome& outcome, const Learner& learner) {
  loss_sum_ += outcome.loss;
  if (!is_effect_told_) {
    observer_.effect(outcome.effect, learner.meter().activation_bytes());
    is_effect_told_ = true;
  }
}

// When there are new ones, and at the end with all that was measured.
void RunLoop::save_plans(bool is_end) {
  std::vector<PlannedModel> models;
  size_t plans = 0;
  for (const auto* learner : parts().learners) {
    if (const auto* budget = learner->budget()) {
      models.push_back({learner->name(), learner->model(), *budget});
      plans += budget->plans().all().size();
    }
  }
  if (models.empty() || !world_.is_first() || (!is_end && plans == plans_saved_)) {
    return;
  }
  plans_saved_ = plans;
  write_plan_file(options_.output / "memory_plan.json", models);
  for (const PlannedModel& each : models) {
    const std::string role = each.role.empty() ? "" : "." + each.role;
    write_memory_page(options_.output / ("memory" + role + ".html"), each, each.budget.measured());
  }
}

bool RunLoop::evaluates_now() const {
  if (!has_evaluation()) {
    return false;
  }
  const bool is_due =
      options_.eval_steps > 0 ? state_.step % options_.eval_steps == 0 : ends_epoch(state_.step);
  return is_due || state_.step == total_;
}

bool RunLoop::saves_now() const {
  return options_.save_steps > 0 &&
         (state_.step % options_.save_steps == 0 || state_.step == total_);
}

TrainingEnd RunLoop::evaluate_now() {
  // The first process's, since figures that are measured differ, and all decide by them.
  const auto bytes = Json::to_msgpack(evaluate());
  const auto record = Json::from_msgpack(
      world_.from_first(std::string(bytes.begin(), bytes.end()), "the figures of an evaluation"));
  for (const auto* learner : parts().learners) {
    learner->model().train(options_.dropout);
  }
  Json line{{"step", state_.step}, {"epoch", epoch_after(state_.step)}};
  line.update(record);
  world_.together("writing down an evaluation", [&] {
    if (metrics_ != nullptr) {
      metrics_->append(line);
    }
    observer_.evaluated(progress(), line);
  });
  return options_.best_metric.empty() ? TrainingEnd::Done : compare_with_best(line);
}

TrainingEnd RunLoop::compare_with_best(const Json& line) {
  if (update_best(state_, line, options_)) {
    save();
    return TrainingEnd::Done;
  }
  const bool gives_up = options_.early_stopping_patience > 0 &&
                        state_.evaluations_without_best >= options_.early_stopping_patience;
  return gives_up ? TrainingEnd::EarlyStopped : TrainingEnd::Done;
}

void RunLoop::save() {
  const auto folder =
      save_snapshot(options_.output, parts(), state_, options_.configuration, world_);
  world_.first_alone("removing old checkpoints", [&] {
    clean_up(options_.output, options_.save_total_limit, state_.best_step);
    observer_.saved(folder);
  });
}

}  // namespace reprise
