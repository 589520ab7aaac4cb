#include "reprise/training/run/run_observer.h"

#include "reprise/training/run/stop_signal.h"

#include <reprise/memory.h>
#include <reprise/report/units.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

namespace reprise::app {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// std::nullopt if the step has no such metric: the policy has no loss while only the critic trains.
std::optional<double> number_in(const Json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
}

Progress shown(const RunProgress& progress, const Json& record, const c10::Device& device) {
  Progress line;
  line.step = progress.step;
  line.total = progress.total_steps;
  line.epoch = progress.epoch;
  line.loss = number_in(record, "loss");
  line.learning_rate = number_in(record, "learning_rate");
  line.grad_norm = number_in(record, "grad_norm");
  line.tokens_per_second =
      record["tokens"].get<double>() / record["step_ms"].get<double>() * 1000.0;
  line.live_bytes = static_cast<double>(live_bytes(device));
  line.peak_bytes = number_in(record, "peak_bytes");
  return line;
}

}  // namespace

RunObserver::RunObserver(Settings settings, ProgressLine& line)
    : settings_(std::move(settings)),
      line_(line),
      events_(settings_.output / "runs"),
      figures_(settings_.flags.objective) {
  events_.add_text("configuration", "```yaml\n" + settings_.configuration + "```\n", now());
}

void RunObserver::on_batch_size_chosen(const std::vector<BatchTrial>& trials,
                                       int64_t batch_size,
                                       int64_t accumulation) {
  for (const BatchTrial& trial : trials) {
    line_.print("micro-batch of " + std::to_string(trial.batch_size) +
                " rows: " + human_count(trial.tokens_per_second) + " tokens/s, " +
                human_bytes(static_cast<double>(trial.predicted_bytes)));
  }
  line_.print("micro-batches of " + std::to_string(batch_size) + " rows are fastest; " +
              std::to_string(accumulation) + " per step");
}

void RunObserver::on_planning(int64_t rows, int64_t length) {
  line_.phase("planning memory for micro-batches of " + std::to_string(rows) + " x " +
              std::to_string(length) + " tokens");
}

void RunObserver::on_train_begin(const RunProgress& progress,
                                 const CheckpointedBlocks& checkpointing) {
  save_when_stopped();
  blocks_ = checkpointing.blocks;
  checkpointing_ = checkpointing.description;
  if (!blocks_.empty()) {
    checkpointing_ += ", policy " + settings_.policy;
  }
  line_.print("activation checkpointing: " + checkpointing_);
  if (progress.step > 0) {
    events_.mark_restart_after(progress.step, now());
    line_.print("resuming after step " + std::to_string(progress.step) + " of " +
                std::to_string(progress.total_steps));
  } else {
    line_.print(std::to_string(progress.total_steps) +
                (progress.total_steps == 1 ? " optimizer step" : " optimizer steps"));
  }
  warnings_.emplace(settings_.flags, progress.step);
  const bool plans =
      !settings_.flags.activation_memory_budget.empty() || !settings_.flags.memory_budget.empty();
  line_.phase(plans ? "planning memory, then the first step" : "the first step");
}

void RunObserver::on_step_end(const RunProgress& progress, const Json& record) {
  events_.add_record(record, now());
  auto line = shown(progress, record, settings_.device);
  line.figures = figures_.of(record);
  const bool is_logged = progress.step == 1 || progress.step % settings_.flags.logging_steps == 0 ||
                         progress.step == progress.total_steps;
  if (is_logged) {
    line_.log(line);
  } else {
    line_.show(line);
  }
  for (const auto& warning : warnings_->after_step(progress.step, progress.total_steps, record)) {
    line_.print(warning);
  }
}

void RunObserver::on_checkpointing_checked(const CheckpointingEffect& effect,
                                           int64_t activation_bytes) {
  const auto kept = static_cast<double>(activation_bytes);
  std::string text =
      "activations: " + human_bytes(static_cast<double>(effect.activation_peak_bytes)) +
      " at most in a micro-batch (what --activation_memory_budget limits); forward "
      "keeps " +
      human_bytes(kept);
  if (!effect.blocks.empty()) {
    text += effect.knows_bytes_dropped
                ? ", without checkpointing " +
                      human_bytes(kept + static_cast<double>(effect.bytes_dropped))
                : ", without checkpointing an unknown amount";
    text +=
        "; recomputing took " + human_seconds(effect.recompute_ms / 1000.0) + " of the first step";
  }
  line_.print(text);
  if (effect.planning_ms > 0) {
    line_.print("planning took " + human_seconds(effect.planning_ms / 1000.0) +
                ", which is not part of the steps' times");
  }
}

void RunObserver::on_evaluate(const RunProgress& progress, const Json& record) {
  events_.add_record(record, now());
  std::string text = "evaluation after step " + std::to_string(progress.step) + ":";
  for (const auto& [name, value] : record.items()) {
    if (name.starts_with("eval_") && value.is_number() && name != "eval_ms") {
      text += " " + name + " " + human_number(value.get<double>());
    }
  }
  line_.print(text);
}

void RunObserver::on_save(const std::filesystem::path& folder) {
  line_.print("saved " + folder.string());
}

bool RunObserver::should_stop() const {
  return stop_requested();
}

}  // namespace reprise::app
