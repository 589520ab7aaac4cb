#include "reprise/training/run_training.h"

#include "reprise/training/make_objective.h"
#include "reprise/training/open_data.h"
#include "reprise/training/open_model.h"
#include "reprise/training/output_dir.h"
#include "reprise/training/run_observer.h"
#include "reprise/training/stop_signal.h"

#include <reprise/io/file.h>
#include <reprise/memory.h>
#include <reprise/train/metrics_file.h>
#include <reprise/train/report.h>
#include <reprise/train/trainer.h>
#include <reprise/train/units.h>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

OptimizerOptions optimizer_options(const TrainingFlags& flags) {
  OptimizerOptions options;
  options.kind = flags.optim == "rmsprop" ? OptimizerKind::RmsProp
                 : flags.optim == "sgd"   ? OptimizerKind::Sgd
                                          : OptimizerKind::AdamW;
  options.beta1 = flags.adam_beta1;
  options.beta2 = flags.adam_beta2;
  options.epsilon = flags.adam_epsilon;
  options.weight_decay = flags.weight_decay;
  options.momentum = flags.momentum;
  return options;
}

TrainerOptions trainer_options(const TrainingFlags& flags,
                               const TrainingData& data,
                               const Json& configuration) {
  TrainerOptions options;
  options.output = flags.output_dir;
  options.batch_size = flags.per_device_train_batch_size;
  options.accumulation = flags.gradient_accumulation_steps;
  options.epochs = flags.num_train_epochs;
  options.max_steps = flags.max_steps;
  options.learning_rate = flags.learning_rate;
  options.schedule.kind = schedule_named(flags.lr_scheduler_type);
  options.schedule.min_ratio = flags.min_lr_ratio;
  options.schedule.decay_steps = flags.lr_decay_steps;
  options.warmup_steps = flags.warmup_ratio > 0 ? flags.warmup_ratio : flags.warmup_steps;
  options.optimizer = optimizer_options(flags);
  options.max_grad_norm = flags.max_grad_norm;
  options.ema_decay = flags.ema_decay;
  options.shuffle = flags.shuffle;
  options.seed = flags.seed;
  options.dropout = !flags.disable_dropout;
  if (flags.bf16) {
    options.autocast = at::kBFloat16;
  }
  options.collate = data.collate;
  options.eval_batch_size = flags.per_device_eval_batch_size;
  options.eval_steps = flags.eval_steps;
  options.save_steps = flags.save_steps;
  options.save_total_limit = flags.save_total_limit;
  options.best_metric = flags.metric_for_best_model;
  options.greater_is_better = flags.greater_is_better;
  options.early_stopping_patience = flags.early_stopping_patience;
  options.configuration = configuration;
  return options;
}

Json report_configuration(const TrainingFlags& flags,
                          const Json& configuration,
                          const TrainedModel& trained,
                          const RunObserver& observer) {
  Json shown{{"title", "reprise " + to_string(flags.objective)},
             {"objective", to_string(flags.objective)},
             {"checkpointing", observer.checkpointing()},
             {"blocks", trained.model->config().layers},
             {"checkpointed_blocks", observer.checkpointed_blocks()}};
  shown.update(configuration);
  return shown;
}

Json report_summary(const TrainingSummary& summary, double seconds) {
  const char* end = summary.end == TrainingEnd::Done      ? "done"
                    : summary.end == TrainingEnd::Stopped ? "stopped"
                                                          : "stopped early";
  Json json{{"end", end},
            {"steps", summary.progress.step},
            {"epochs", summary.progress.epoch},
            {"train_loss", summary.train_loss},
            {"run_seconds", seconds}};
  if (!summary.best_checkpoint.empty()) {
    json["best_checkpoint"] = summary.best_checkpoint.filename().string();
  }
  return json;
}

void print_end(const TrainingFlags& flags, const TrainingSummary& summary, ProgressLine& line) {
  if (summary.end == TrainingEnd::Stopped) {
    line.print("stopped after step " + std::to_string(summary.progress.step) +
               "; go on with the same command and --resume_from_checkpoint auto");
    return;
  }
  line.print(
      (summary.end == TrainingEnd::EarlyStopped ? "stopped early: no better evaluation; " : "") +
      ("model: " + flags.output_dir) +
      ", report: " + (fs::path(flags.output_dir) / "report.html").string());
}

}  // namespace

void run_training(const TrainingFlags& flags, const Json& configuration) {
  const auto start = Clock::now();
  track_cpu_memory();
  listen_for_stop_signals();
  ProgressLine line;
  const fs::path resume_from = check_output(flags, configuration);
  const TrainedModel trained = open_trained_model(flags, keeps_reference(flags), line);
  const TrainingData data = open_training_data(flags, trained.model->config(), line);
  const auto objective = make_objective(flags, trained, data, line);
  auto options = trainer_options(flags, data, configuration);
  options.configuration["data_key"] = data.train_key;
  check_same_data(resume_from, data.train_key);
  // Nothing is written, or removed, until all that can be wrong with the input has been looked at.
  prepare_output(flags);
  write_file(fs::path(flags.output_dir) / "training.yaml", to_yaml(configuration));
  RunObserver observer({flags.output_dir,
                        flags.logging_steps,
                        trained.model->device(),
                        checkpointing_request(flags).policy,
                        to_yaml(configuration)},
                       line);
  const TrainingJob job{*objective,
                        data.train,
                        data.evaluation,
                        [&](const fs::path& folder) { save_trained_model(trained, flags, folder); },
                        resume_from};
  const auto summary = train(job, options, observer);

  if (summary.end != TrainingEnd::Stopped) {
    if (flags.load_best_model_at_end && fs::exists(summary.best_checkpoint)) {
      load_trained(*trained.model, summary.best_checkpoint);
      line.print("the best model is that of " + summary.best_checkpoint.string());
    }
    job.save_model(flags.output_dir);
    objective->complete(flags.output_dir);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  write_report(fs::path(flags.output_dir) / "report.html",
               MetricsFile::read(fs::path(flags.output_dir) / "metrics.jsonl"),
               report_configuration(flags, configuration, trained, observer),
               report_summary(summary, seconds));
  print_end(flags, summary, line);
}

}  // namespace reprise::app
