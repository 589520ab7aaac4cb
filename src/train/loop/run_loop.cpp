#include "train/loop/run_loop.h"

#include "train/budget/budget_files.h"
#include "train/loop/best_evaluation.h"
#include "train/loop/checkpoint_folders.h"
#include "train/loop/rng_state.h"

#include <string>
#include <vector>

namespace reprise {

TrainingObserver::~TrainingObserver() = default;
void TrainingObserver::on_batch_size_chosen(const std::vector<BatchTrial>&, int64_t, int64_t) {}
void TrainingObserver::on_planning(int64_t /*rows*/, int64_t /*length*/) {}
void TrainingObserver::on_train_begin(const RunProgress&, const CheckpointedBlocks&) {}
void TrainingObserver::on_step_end(const RunProgress&, const Json&) {}
void TrainingObserver::on_checkpointing_checked(const CheckpointingEffect&, int64_t) {}
void TrainingObserver::on_evaluate(const RunProgress&, const Json&) {}
void TrainingObserver::on_save(const std::filesystem::path&) {}
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
  prepare();
  TrainingSummary summary;
  while (state_.step < total_ && summary.end == TrainingEnd::Done) {
    summary.end = advance();
  }
  world_.run_on_first("writing the memory plan", [&] { save_plans(/*is_end=*/true); });
  summary.progress = progress();
  summary.train_loss = steps_ > 0 ? loss_sum_ / static_cast<double>(steps_) : 0;
  if (summary.end == TrainingEnd::Stopped) {
    save();
  } else if (options_.ema_decay > 0) {
    save_average();
  }
  if (state_.best_step > 0) {
    summary.best_checkpoint = checkpoint_folder(options_.output, state_.best_step);
  }
  return summary;
}

void RunLoop::begin(const std::filesystem::path& resume_from) {
  for (auto* learner : learners()) {
    learner->model().train(options_.dropout);
    learner->report_planning(
        [this](int64_t rows, int64_t length) { observer_.on_planning(rows, length); });
  }
  const Learner& main = *learners().front();
  seed_everything(options_.seed, main.model().device(), world_);
  if (!resume_from.empty()) {
    state_ = load_run_checkpoint(resume_from, *this, world_, options_.seed);
    TORCH_CHECK(state_.step <= total_,
                "[train] ",
                resume_from.string(),
                ": was saved after step ",
                state_.step,
                ", but this run has ",
                total_,
                " steps");
  }
  world_.run_on_first("preparing the output folder", [&] {
    continues_ = continues_in(options_.output, resume_from);
    prepare_output(options_.output, resume_from, state_.step, state_.best_step);
    metrics_ = &open_log("metrics.jsonl");
  });
  observer_.on_train_begin(progress(), {main.effect().expected(), main.effect().describe()});
}

// Takes one step, then writes, evaluates and saves as needed.
TrainingEnd RunLoop::advance() {
  const Json record = train_step();
  ++steps_;
  world_.run_on_all("writing the metrics of a step", [&] {
    if (metrics_ != nullptr) {
      metrics_->append(record);
    }
    save_plans(/*is_end=*/false);
    observer_.on_step_end(progress(), record);
  });
  TrainingEnd end = TrainingEnd::Done;
  if (is_evaluation_due()) {
    end = evaluate_now();
  }
  const bool is_last = state_.step >= total_;
  if (is_save_due()) {
    save();
  }
  return end == TrainingEnd::Done && !is_last && should_stop() ? TrainingEnd::Stopped : end;
}

// A signal may reach only one of the processes.
bool RunLoop::should_stop() const {
  return world_.max(observer_.should_stop() ? 1 : 0, "whether to stop") > 0;
}

void RunLoop::save_average() {
  const Learner& learner = *learners().front();
  auto* const sharded = learner.model().sharded_parameters();
  const auto refresh = [&] {
    if (sharded != nullptr) {
      sharded->refresh();
    }
  };
  {
    const auto averaged = learner.average()->swap();
    refresh();
    save_averaged_models(options_.output / "ema");
  }
  refresh();
}

void RunLoop::note_outcome(const StepOutcome& outcome, const Learner& learner) {
  loss_sum_ += outcome.loss;
  if (!is_effect_reported_) {
    observer_.on_checkpointing_checked(outcome.effect, learner.meter().activation_bytes());
    is_effect_reported_ = true;
  }
}

// Writes the plans whenever there are new ones, and at the end with all measurements.
void RunLoop::save_plans(bool is_end) {
  std::vector<BudgetedModel> models;
  size_t plans = 0;
  for (const auto* learner : learners()) {
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
  for (const auto* learner : learners()) {
    if (const auto* budget = learner->budget()) {
      const std::string role = learner->name().empty() ? "" : "." + learner->name();
      write_memory_page(options_.output / ("memory" + role + ".html"),
                        {learner->name(), learner->model(), *budget},
                        learner->most(),
                        options_.accumulation > 1);
    }
  }
}

bool RunLoop::is_evaluation_due() const {
  if (!has_evaluation()) {
    return false;
  }
  const bool is_due =
      options_.eval_steps > 0 ? state_.step % options_.eval_steps == 0 : ends_epoch(state_.step);
  return is_due || state_.step == total_;
}

bool RunLoop::is_save_due() const {
  return options_.save_steps > 0 &&
         (state_.step % options_.save_steps == 0 || state_.step == total_);
}

TrainingEnd RunLoop::evaluate_now() {
  // All processes use the metrics of the first: measured times differ, and decisions must not.
  const auto bytes = Json::to_msgpack(evaluate());
  const auto record = Json::from_msgpack(
      world_.broadcast(std::string(bytes.begin(), bytes.end()), "the metrics of an evaluation"));
  for (const auto* learner : learners()) {
    learner->model().train(options_.dropout);
  }
  Json line{{"step", state_.step}, {"epoch", epoch_after(state_.step)}};
  line.update(record);
  world_.run_on_all("writing the metrics of an evaluation", [&] {
    if (metrics_ != nullptr) {
      metrics_->append(line);
    }
    observer_.on_evaluate(progress(), line);
  });
  return options_.best_metric.empty() ? TrainingEnd::Done : compare_with_best(line);
}

TrainingEnd RunLoop::compare_with_best(const Json& record) {
  if (update_best(state_, record, options_)) {
    save();
    return TrainingEnd::Done;
  }
  const bool gives_up = options_.early_stopping_patience > 0 &&
                        state_.evaluations_without_best >= options_.early_stopping_patience;
  return gives_up ? TrainingEnd::EarlyStopped : TrainingEnd::Done;
}

MetricsFile& RunLoop::open_log(const std::string& name) {
  const auto path = options_.output / name;
  const bool exists = std::filesystem::exists(path);
  auto& log = logs_[name] = std::make_unique<MetricsFile>(path);
  const auto mark = state_.logs.find(name);
  if (continues_ && exists && mark != state_.logs.end()) {
    log->return_to(mark->second);
  } else {
    log->truncate_after(state_.step);
  }
  return *log;
}

void RunLoop::save() {
  // Before the checkpoint: it promises these lines.
  world_.run_on_first("writing the logs", [&] {
    for (const auto& [name, log] : logs_) {
      state_.logs[name] = log->sync();
    }
  });
  const auto folder =
      save_run_checkpoint(options_.output, *this, state_, options_.configuration, world_);
  world_.run_on_first("removing old checkpoints", [&] {
    remove_old_checkpoints(options_.output, options_.save_total_limit, state_.best_step);
    observer_.on_save(folder);
  });
}

}  // namespace reprise
