#include "reprise/training/run/training_run.h"

#include "reprise/device.h"
#include "reprise/training/effects/same_run.h"
#include "reprise/training/options/kernel_choice.h"
#include "reprise/training/options/role_checkpointing.h"
#include "reprise/training/run/run_facts.h"
#include "reprise/training/run/stop_signal.h"
#include "reprise/training/setup/check_inputs.h"
#include "reprise/training/setup/output_dir.h"

#include <reprise/io/file.h>
#include <reprise/memory.h>
#include <reprise/ops/products.h>
#include <reprise/optim/optimizer.h>
#include <reprise/report/metrics_file.h>
#include <reprise/report/report.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <utility>
#include <vector>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Flags whose effect depends on the machine.
void check_device_effects(const TrainingFlags& flags) {
  const std::pair<const char*, bool> offloads[] = {{"teacher_offload", flags.teacher_offload},
                                                   {"offload_reference", flags.offload_reference},
                                                   {"offload_reward", flags.offload_reward},
                                                   {"fsdp_cpu_offload", flags.fsdp_cpu_offload}};
  for (const auto& [name, is_on] : offloads) {
    TORCH_CHECK(!is_on || !choose_device(flags.device).is_cpu(),
                "--",
                name,
                " has no effect without a GPU: everything is already in CPU memory");
  }
  const std::pair<const char*, bool> tiers[] = {{"optimizer_offload", flags.optimizer_offload},
                                                {"gradient_offload", flags.gradient_offload}};
  for (const auto& [name, is_on] : tiers) {
    TORCH_CHECK(!is_on || can_offload(choose_device(flags.device)),
                "--",
                name,
                " has no effect without a GPU: everything is already in CPU memory");
  }
  const bool offloads_state = flags.optimizer_offload || flags.gradient_offload;
  TORCH_CHECK(
      flags.host_memory_budget.empty() || offloads_state || !choose_device(flags.device).is_cpu(),
      "--host_memory_budget has no effect without a GPU: activations are already in CPU "
      "memory");
  const bool is_of_gpu = flags.attention == "flash" || flags.attention == "cudnn";
  TORCH_CHECK(!is_of_gpu || !choose_device(flags.device).is_cpu(),
              "--attention ",
              flags.attention,
              " has no effect without a GPU: leave it out");
}

// Must run before the first model is opened: cuBLAS and LibTorch read these settings once.
void choose_kernels_of(const TrainingFlags& flags) {
  choose_kernels(kernel_choice(flags, flags.device == "cpu" ? 0 : gpu_generation()));
}

// The observer of all ranks but 0: it only forwards the request to stop.
class Follower final : public TrainingObserver {
 public:
  void on_train_begin(const RunProgress& /*progress*/,
                      const CheckpointedBlocks& /*checkpointing*/) override {
    save_when_stopped();
  }
  bool should_stop() const override { return stop_requested(); }
};

std::vector<Json> records_of(const fs::path& file) {
  return fs::exists(file) ? MetricsFile::read(file) : std::vector<Json>();
}

}  // namespace

TrainingRun::TrainingRun(const TrainingFlags& flags, Json configuration, const RunWorld& world)
    : flags_(flags),
      world_(world),
      configuration_(std::move(configuration)),
      start_(Clock::now()),
      line_(world.is_first() ? STDERR_FILENO : ProgressLine::kSilent),
      output_(flags.output_dir) {
  track_cpu_memory();
  listen_for_stop_signals(world.is_first() ? StopAnswers::Printed : StopAnswers::Silent);
  for (const std::string& note : flags_.notes) {
    line_.print(note);
  }
  check_device_effects(flags_);
  choose_kernels_of(flags_);
  if (world_.is_joined()) {
    line_.print(world_.describe());
  }
  const std::string what = "looking at " + output_.string();
  world_.world().run_on_first(what, [&] {
    if (fs::is_directory(output_)) {
      lock_output();
    }
    check_writable(output_);
    resume_from_ = check_output(flags_, configuration_, world_.world().size());
    changes_ = changes_of_run(resume_from_, configuration_);
    for (const auto& change : change_lines(changes_)) {
      line_.print("changed: " + change);
    }
  });
  resume_from_ = world_.world().broadcast(resume_from_.string(), what);
  world_.world().run_on_all("looking at the inputs", [&] { check_inputs(flags_); });
}

Json TrainingRun::recorded_configuration() const {
  Json recorded = configuration_;
  if (!changes_.empty()) {
    recorded["changes"] = changes_;
  }
  return recorded;
}

// For --config. Comments have what else a repetition depends on: the changes, and the library of
// products, which the processor decides.
std::string TrainingRun::configuration_text() const {
  std::string text = to_yaml(configuration_);
  for (const auto& change : change_lines(changes_)) {
    text += "# changed: " + change + "\n";
  }
  if (!products_.empty()) {
    text += "# float32 products: " + products_ + "\n";
  }
  return text;
}

void TrainingRun::lock_output() {
  lock_ = std::make_unique<FolderLock>(output_);
  if (!lock_->missing().empty()) {
    line_.print(output_.string() + ": this file system has no locks (" + lock_->missing() +
                "): make sure that no other run writes there");
  }
}

TrainingObserver& TrainingRun::begin(const Model& model, const std::string& data_key) {
  attention_ = attention_of(flags_, model);
  line_.print("attention: " + attention_);
  products_ = model.device().is_cpu() ? cpu_product_library() : "";
  check_shared(output_, world_.world());  // before an old run is deleted
  world_.world().run_on_first("making " + output_.string() + " ready", [&] {
    if (lock_ == nullptr) {
      create_folder(output_);
      lock_output();
      TORCH_CHECK(check_output(flags_, configuration_, world_.world().size()) == resume_from_,
                  output_.string(),
                  ": another run has written there meanwhile; start again");
    }
    check_same_data(resume_from_, data_key);
    clear_output(flags_);
    write_file(output_ / "training.yaml", configuration_text());
  });
  if (!world_.is_first()) {
    follower_ = std::make_unique<Follower>();
    return *follower_;
  }
  observer_ = std::make_unique<RunObserver>(
      RunObserver::Settings{output_,
                            flags_,
                            model.device(),
                            checkpointing_request(flags_, Role::Actor).policy,
                            configuration_text()},
      line_);
  return *observer_;
}

bool TrainingRun::takes_best(const TrainingSummary& summary) const {
  const bool is_there = flags_.load_best_model_at_end && fs::exists(summary.best_checkpoint);
  return world_.world().broadcast(is_there ? "yes" : "no", "choosing the model to save") == "yes";
}

void TrainingRun::finish(const TrainingSummary& summary, const Model& model) {
  world_.world().run_on_first("writing the report", [&] {
    ReportRun run;
    run.steps = MetricsFile::read(output_ / "metrics.jsonl");
    run.configuration = report_configuration(model);
    run.summary = report_summary(summary);
    run.samples = records_of(output_ / "samples.jsonl");
    write_report(output_ / "report.html", {std::move(run)});
    print_end(summary);
  });
}

Json TrainingRun::report_configuration(const Model& model) const {
  Json shown{{"title", "reprise " + to_string(flags_.objective)},
             {"objective", to_string(flags_.objective)},
             {"checkpointing", observer_->checkpointing()},
             {"blocks", model.config().layers},
             {"checkpointed_blocks", observer_->checkpointed_blocks()}};
  shown.update(configuration_);
  shown.update(run_facts(REPRISE_VERSION));
  shown["attention"] = attention_;
  if (!products_.empty()) {
    shown["float32_products"] = products_;
  }
  if (!changes_.empty()) {
    shown["changes"] = c10::Join("; ", change_lines(changes_));
  }
  for (const auto& [name, fact] : facts_.items()) {
    if (fact != "") {
      shown[name] = fact;
    }
  }
  if (world_.is_joined()) {
    shown["processes"] = world_.describe();
  }
  return shown;
}

Json TrainingRun::report_summary(const TrainingSummary& summary) const {
  const char* end = summary.end == TrainingEnd::Done      ? "done"
                    : summary.end == TrainingEnd::Stopped ? "stopped"
                                                          : "stopped early";
  Json json{{"end", end},
            {"steps", summary.progress.step},
            {"epochs", summary.progress.epoch},
            {"train_loss", summary.train_loss},
            {"run_seconds", std::chrono::duration<double>(Clock::now() - start_).count()}};
  if (!summary.best_checkpoint.empty()) {
    json["best_checkpoint"] = summary.best_checkpoint.filename().string();
  }
  return json;
}

void TrainingRun::print_end(const TrainingSummary& summary) {
  if (summary.end == TrainingEnd::Stopped) {
    line_.print("stopped after step " + std::to_string(summary.progress.step) +
                "; to resume, add --resume_from_checkpoint auto to the command");
    return;
  }
  line_.print(
      (summary.end == TrainingEnd::EarlyStopped ? "stopped early: no better evaluation; " : "") +
      ("model: " + output_.string()) + ", report: " + (output_ / "report.html").string());
}

}  // namespace reprise::app
