// The loop. One optimizer step is: collate its micro-batches, forward and backward each, clip,
// update; then look whether checkpointing did what was asked, write the metrics, and perhaps
// evaluate and save.
#include <reprise/train/trainer.h>

#include "train/batch_plan.h"
#include "train/best_evaluation.h"
#include "train/evaluate.h"
#include "train/metric_sums.h"
#include "train/not_finite.h"
#include "train/passes.h"
#include "train/snapshot.h"

#include <reprise/autocast.h>
#include <reprise/model/lora.h>
#include <reprise/train/metrics_file.h>
#include <reprise/train/out_of_memory.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise {

TrainingObserver::~TrainingObserver() = default;
void TrainingObserver::begin(const RunProgress&, const EffectCheck&) {}
void TrainingObserver::step(const RunProgress&, const Json&) {}
void TrainingObserver::effect(const CheckpointingEffect&, int64_t) {}
void TrainingObserver::evaluated(const RunProgress&, const Json&) {}
void TrainingObserver::saved(const std::filesystem::path&) {}
void TrainingObserver::note(const std::string&) {}
bool TrainingObserver::should_stop() const {
  return false;
}

namespace {

using Clock = std::chrono::steady_clock;

void seed_everything(uint64_t seed, const at::Device& device) {
  for (const at::Device& each : {at::Device(at::kCPU), device}) {
    auto generator = at::globalContext().defaultGenerator(each);
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

// Of a padded row; of rows that were joined, the mean.
int64_t row_length(const Batch& batch) {
  return batch.main.document_ids.defined()
             ? batch.main.tokens / static_cast<int64_t>(batch.rows.size())
             : batch.main.input_ids.size(1);
}

class Run {
 public:
  Run(const TrainingJob& job,
      const TrainerOptions& options,
      TrainingObserver& observer,
      const World& world)
      : job_(job),
        options_(options),
        observer_(observer),
        world_(world),
        model_(job.objective.model()),
        plan_({job.data->size(), options.batch_size, options.accumulation},
              options.seed,
              options.shuffle),
        effect_(model_),
        meter_(model_.device()),
        optimizer_(Optimizer::make(trained_parameters(model_), options.optimizer)) {
    total_ = plan_.total_steps(options.epochs, options.max_steps);
    schedule_ = options.schedule;
    schedule_.warmup_steps = warmup_count(options.warmup_steps, total_);
    if (options.ema_decay > 0) {
      average_ = std::make_unique<MovingAverage>(optimizer_->parameters(), options.ema_decay);
    }
  }

  TrainingSummary run() {
    model_.train(options_.dropout);
    seed_everything(options_.seed, model_.device());
    if (!job_.resume_from.empty()) {
      state_ = load_snapshot(job_.resume_from, parts());
    }
    const bool is_first = world_.is_first();
    if (is_first) {
      prepare_output(options_.output, job_.resume_from, state_);
      metrics_ = std::make_unique<MetricsFile>(options_.output / "metrics.jsonl");
      metrics_->cut_back(state_.step);
    }
    observer_.begin(progress(), effect_);
    TrainingSummary summary;
    while (state_.step < total_ && summary.end == TrainingEnd::Done) {
      summary.end = advance();
    }
    summary.progress = progress();
    summary.train_loss = steps_ > 0 ? loss_sum_ / static_cast<double>(steps_) : 0;
    if (summary.end == TrainingEnd::Stopped) {
      save();
    } else if (average_ != nullptr && world_.is_first()) {
      const auto averaged = average_->swap();
      job_.save_model(options_.output / "ema");
    }
    if (state_.best_step > 0) {
      summary.best_checkpoint =
          options_.output / ("checkpoint-" + std::to_string(state_.best_step));
    }
    return summary;
  }

 private:
  RunParts parts() { return {job_.objective, *optimizer_, average_.get(), job_.save_model}; }

  RunProgress progress() const { return {state_.step, total_, plan_.epoch_after(state_.step)}; }

  // One step and what follows it.
  TrainingEnd advance() {
    const Json record = train_step();
    ++steps_;
    if (metrics_ != nullptr) {
      metrics_->append(record);
    }
    observer_.step(progress(), record);
    TrainingEnd end = TrainingEnd::Done;
    if (evaluates_now()) {
      end = evaluate_now();
    }
    const bool is_last = state_.step >= total_;
    if (saves_now()) {
      save();
    }
    return end == TrainingEnd::Done && !is_last && observer_.should_stop() ? TrainingEnd::Stopped
                                                                           : end;
  }

  Json train_step() {
    const auto start = Clock::now();
    effect_.begin_step();
    meter_.begin_step(
        {parameter_bytes(model_) + job_.objective.frozen_bytes(), optimizer_->bytes()});
    const auto indices = plan_.micro_batches(state_.step);
    std::vector<Batch> batches;
    StepContext context{0, &meter_};
    int64_t tokens = 0;
    for (const auto& chosen : indices) {
      batches.push_back(collate_examples(*job_.data, chosen, options_.collate));
      context.total_weight += job_.objective.weight(batches.back());
      tokens += batches.back().main.tokens;
    }
    context.total_weight = world_.sum(context.total_weight);
    TORCH_CHECK(context.total_weight > 0,
                "[train] step ",
                state_.step + 1,
                ": no token of its rows is trained on.");

    MetricSums metrics;
    at::Tensor loss;
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto part = run_micro_batch(batches[i], context, batches.size());
      metrics.add(part.metrics);
      const auto value = part.part.detach();
      loss = loss.defined() ? loss + value : value;
      TORCH_CHECK(std::isfinite(value.item<double>()),
                  describe_not_finite(
                      {job_.objective, *job_.data, options_.collate}, indices[i], state_.step + 1));
    }
    sum_gradients();
    const double norm =
        clip_grad_norm(optimizer_->parameters(), options_.max_grad_norm).item<double>();
    TORCH_CHECK(std::isfinite(norm),
                "[train] step ",
                state_.step + 1,
                ": the loss is finite, but the norm of its gradients is ",
                norm,
                ". Lower --learning_rate, or compute in a wider type (--dtype float32).");
    const double rate =
        options_.learning_rate * learning_rate_factor(schedule_, state_.step, total_);
    optimizer_->step(rate);
    meter_.end_step();
    optimizer_->zero_grad();
    ++state_.step;
    if (average_ != nullptr) {
      average_->update();
    }
    job_.objective.after_step(state_.step);
    state_.tokens += static_cast<int64_t>(world_.sum(static_cast<double>(tokens)));

    const auto effect = effect_.end_step(static_cast<int64_t>(batches.size()));
    if (!is_effect_told_) {
      observer_.effect(effect, meter_.activation_bytes());
      is_effect_told_ = true;
    }
    const double mean_loss = world_.sum(loss).item<double>();
    loss_sum_ += mean_loss;
    Json record{
        {"step", state_.step},
        {"loss", mean_loss},
        {"grad_norm", norm},
        {"learning_rate", rate},
        {"tokens", tokens},
        {"step_ms", std::chrono::duration<double, std::milli>(Clock::now() - start).count()},
        {"peak_bytes", meter_.peak_bytes()},
        {"activation_bytes", meter_.activation_bytes()},
        {"recompute_ms", effect.recompute_ms},
        {"regions_recomputed", effect.recomputed},
        {"epoch", plan_.epoch_after(state_.step)},
        {"num_tokens", state_.tokens}};
    if (effect.blocks.empty() || effect.bytes_dropped > 0) {
      record["estimated_activation_bytes"] = meter_.activation_bytes() + effect.bytes_dropped;
    }
    metrics.write_to(record, world_);
    record["memory"] = meter_.classes().to_json();
    return record;
  }

  // An allocator that fails says how much it wanted; this says who had the rest.
  BatchLoss run_micro_batch(const Batch& batch, const StepContext& context, size_t count) {
    try {
      return forward_backward(to_device(batch, model_.device()), context);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) {
        throw;
      }
      meter_.give_up();
      const auto* own = dynamic_cast<const c10::Error*>(&error);
      TORCH_CHECK(
          false,
          explain_out_of_memory(own != nullptr ? own->what_without_backtrace() : error.what(),
                                {meter_.classes(),
                                 state_.step + 1,
                                 static_cast<int64_t>(count),
                                 static_cast<int64_t>(batch.rows.size()),
                                 row_length(batch)},
                                model_));
    }
  }

  BatchLoss forward_backward(const Batch& batch, const StepContext& context) {
    meter_.begin_forward();
    BatchLoss result;
    {
      const AutocastScope autocast(model_.device().type(),
                                   options_.autocast.value_or(at::kFloat),
                                   options_.autocast.has_value());
      result = job_.objective.loss(batch, context);
    }
    meter_.end_loss();
    result.part.backward();
    meter_.end_backward();
    return result;
  }

  // Parts of the loss were divided by the weight of all processes, so their gradients add up.
  void sum_gradients() {
    if (world_.size() == 1) {
      return;
    }
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : optimizer_->parameters()) {
      if (auto gradient = parameter.grad(); gradient.defined()) {
        gradient.copy_(world_.sum(gradient));
      }
    }
  }

  bool evaluates_now() const {
    if (job_.eval_data == nullptr) {
      return false;
    }
    const bool is_due = options_.eval_steps > 0 ? state_.step % options_.eval_steps == 0
                                                : plan_.ends_epoch(state_.step);
    return is_due || state_.step == total_;
  }

  bool saves_now() const {
    return options_.save_steps > 0 &&
           (state_.step % options_.save_steps == 0 || state_.step == total_);
  }

  TrainingEnd evaluate_now() {
    const Json record =
        evaluate({job_.objective, *job_.eval_data, options_.collate, options_.eval_batch_size},
                 options_,
                 world_);
    model_.train(options_.dropout);
    Json line{{"step", state_.step}, {"epoch", plan_.epoch_after(state_.step)}};
    line.update(record);
    if (metrics_ != nullptr) {
      metrics_->append(line);
    }
    observer_.evaluated(progress(), line);
    return options_.best_metric.empty() ? TrainingEnd::Done : compare_with_best(line);
  }

  TrainingEnd compare_with_best(const Json& line) {
    if (update_best(state_, line, options_)) {
      save();
      return TrainingEnd::Done;
    }
    const bool gives_up = options_.early_stopping_patience > 0 &&
                          state_.evaluations_without_best >= options_.early_stopping_patience;
    return gives_up ? TrainingEnd::EarlyStopped : TrainingEnd::Done;
  }

  void save() {
    if (!world_.is_first()) {
      return;
    }
    const auto folder = save_snapshot(options_.output, parts(), state_, options_.configuration);
    clean_up(options_.output, options_.save_total_limit, state_.best_step);
    observer_.saved(folder);
  }

  const TrainingJob& job_;
  const TrainerOptions& options_;
  TrainingObserver& observer_;
  const World& world_;
  Model& model_;
  BatchPlan plan_;
  EffectCheck effect_;
  MemoryMeter meter_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<MovingAverage> average_;
  std::unique_ptr<MetricsFile> metrics_;
  ScheduleOptions schedule_;
  RunState state_;
  int64_t total_ = 0;
  int64_t steps_ = 0;  // of this process
  double loss_sum_ = 0;
  bool is_effect_told_ = false;
};

}  // namespace

TrainingSummary train(const TrainingJob& job,
                      const TrainerOptions& options,
                      TrainingObserver& observer,
                      const World& world) {
  return Run(job, options, observer, world).run();
}

}  // namespace reprise
