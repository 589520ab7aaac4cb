// The loop of online training: a generation batch, optimizer steps on it, the next one.
#include <reprise/train/online.h>

#include "train/collector.h"
#include "train/online_options.h"
#include "train/online_update.h"
#include "train/run_loop.h"
#include "train/stopwatch.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace reprise {

namespace {

// How many optimizer steps a generation batch is good for, and how many prompts it has. Batches
// are of all processes.
struct Sizes {
  int64_t micro_batches = 0;  // of a generation batch
  int64_t step_micro_batches = 0;
  int64_t completions = 0;
  int64_t prompts = 0;
  int64_t steps = 0;

  Sizes(const OnlineOptions& options, const World& world)
      : micro_batches(generation_micro_batches(options) * world.size()),
        step_micro_batches(options.training.accumulation * world.size()),
        completions(options.training.batch_size * micro_batches),
        prompts(completions / options.rollout.generate.samples_per_prompt),
        steps(micro_batches / step_micro_batches * options.iterations) {}
};

int64_t total_steps(const OnlineJob& job, const OnlineOptions& options, const World& world) {
  validate(options, world.size());
  if (options.training.max_steps > 0) {
    return options.training.max_steps;
  }
  const Sizes sizes(options, world);
  const double batches = options.training.epochs * static_cast<double>(job.prompts->size()) /
                         static_cast<double>(sizes.prompts);
  return static_cast<int64_t>(std::ceil(batches)) * sizes.steps;
}

// Rows of a group stand together; micro-batches shall not. A function of seed and batch alone.
at::Tensor shuffled(int64_t size, uint64_t seed, int64_t batch) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    order[static_cast<size_t>(i)] = i;
  }
  std::mt19937_64 random(seed + 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(batch + 1));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random() % i]);  // std::shuffle is not the same everywhere
  }
  return at::tensor(order, at::kLong);
}

class OnlineRun final : public RunLoop {
 public:
  OnlineRun(const OnlineJob& job,
            const OnlineOptions& options,
            TrainingObserver& observer,
            const World& world)
      : RunLoop(options.training, observer, world, total_steps(job, options, world)),
        job_(job),
        online_(options),
        sizes_(options, world),
        collector_(job, options, world),
        update_(job, options, total_, world) {
    check_job();
    collected_.kl_coef = options.kl_reward_coef;
    update_.move_optimizers(at::kCPU);
    if (job.reference && options.offload_reference) {
      job.reference->move_to(at::kCPU);
    }
  }

 private:
  void check_job() const {
    TORCH_CHECK((job_.critic != nullptr) == (online_.estimator == OnlineEstimator::Gae),
                "[online] a critic is needed for gae, and for nothing else.");
    TORCH_CHECK(job_.critic == nullptr || job_.critic->head() == HeadKind::Value,
                "[online] the critic needs a value head: load it with HeadKind::Value.");
    TORCH_CHECK(job_.reference.has_value() == needs_reference(online_),
                needs_reference(online_)
                    ? "[online] the KL from a reference counts, but there is none."
                    : "[online] a reference has no effect: give beta or kl_coef.");
    TORCH_CHECK((job_.pretraining != nullptr) == (online_.pretraining_coef > 0),
                "[online] ptx_coef and data for it must be given together.");
  }

  Json train_step() override {
    const int64_t position = state_.step % sizes_.steps;
    Json record{{"step", state_.step + 1}};
    open_samples();
    if (position == 0) {
      collect(record);
    }
    check_experience();
    double update_ms = 0;
    const auto rows = next_rows(position);
    {
      const Stopwatch watch(update_ms);
      update_.move_optimizers(job_.policy->device());
      if (const auto outcome = update_.step(state_.step, rows, record)) {
        note_outcome(*outcome, update_.policy());
      }
      ++state_.step;
      if (state_.step % sizes_.steps == 0) {
        update_.move_optimizers(at::kCPU);
      }
    }
    state_.tokens += rows.text_tokens;
    record["tokens"] = rows.text_tokens;
    record["num_tokens"] = state_.tokens;
    record["epoch"] = epoch_after(state_.step);
    record["update_ms"] = update_ms;
    record["step_ms"] =
        update_ms + record.value("rollout_ms", 0.0) + record.value("scoring_ms", 0.0);
    if (state_.step % sizes_.steps == 0) {
      experience_ = {};
    }
    return record;
  }

  // Of a run that goes on in the middle of a generation batch.
  void check_experience() const {
    TORCH_CHECK(experience_.size() > 0,
                "[online] the checkpoint of step ",
                state_.step,
                " lacks the rest of its generation batch.");
    TORCH_CHECK(experience_.size() == sizes_.completions,
                "[online] the checkpoint of step ",
                state_.step,
                " is in the middle of a generation batch of ",
                experience_.size(),
                " completions, and this run has ",
                sizes_.completions,
                ": go on with as many processes as before, or from a checkpoint between two.");
  }

  void collect(Json& record) {
    const auto order = shuffled(sizes_.completions, options_.seed, state_.step / sizes_.steps);
    auto state = collected_;
    Collected next;
    try {
      next = collector_.next(sizes_.prompts, order, state);
    } catch (const std::exception&) {
      // A checkpoint is made by all processes or by none.
      if (world_.size() == 1 || collector_.has_failed_together()) {
        save_before_failing();
      }
      throw;
    }
    collected_ = state;
    record.update(next.figures);
    experience_ = std::move(next.experience);
    const bool shows =
        online_.samples_steps > 0 &&
        (state_.step == 0 || state_.step / online_.samples_steps !=
                                 (state_.step - sizes_.steps) / online_.samples_steps);
    if (shows && world_.is_first()) {
      write_samples(next.samples);
    }
  }

  // A reward that fails, a process that dies: what was learned so far is kept. Nothing has changed
  // since the last step, so that a run which goes on from here is the same run.
  void save_before_failing() {
    if (state_.step == 0) {
      return;
    }
    try {
      save();
    } catch (const std::exception&) {
      // The first error is the one to tell.
    }
  }

  // Lines of a run that went on behind the checkpoint are cut off.
  void open_samples() {
    const auto path = options_.output / "samples.jsonl";
    const bool is_wanted = online_.samples_steps > 0 || std::filesystem::exists(path);
    if (samples_ == nullptr && world_.is_first() && is_wanted) {
      samples_ = std::make_unique<MetricsFile>(path);
      samples_->cut_back(state_.step);
    }
  }

  void write_samples(const std::vector<Json>& samples) {
    for (const auto& sample : samples) {
      Json line{{"step", state_.step + 1}};
      line.update(sample);
      samples_->append(line);
    }
  }

  // The micro-batches of the step at this place of the generation batch, dealt to the processes.
  UpdateRows next_rows(int64_t position) const {
    const int64_t size = options_.batch_size;
    const int64_t first = position * sizes_.step_micro_batches % sizes_.micro_batches;
    const int64_t last = first + sizes_.step_micro_batches;
    const auto of_step = [&](const at::Tensor& values) {
      return values.slice(0, first * size, last * size).sum();
    };
    UpdateRows rows;
    rows.step_micro_batches = sizes_.step_micro_batches;
    rows.sequences = sizes_.step_micro_batches * size;
    rows.tokens = of_step(experience_.mask).item<double>();
    rows.text_tokens = of_step(experience_.prompt_lengths + experience_.lengths).item<int64_t>();
    rows.generation_tokens = experience_.tokens();
    for (int64_t i = first + world_.rank(); i < last; i += world_.size()) {
      rows.micro_batches.push_back(rows_of(experience_, i * size, size, job_.policy->device()));
    }
    return rows;
  }

  bool has_evaluation() const override { return job_.eval_prompts != nullptr; }
  Json evaluate() override { return collector_.evaluate(); }

  double epoch_after(int64_t steps) const override {
    return static_cast<double>(steps * sizes_.prompts) /
           static_cast<double>(sizes_.steps * job_.prompts->size());
  }

  bool ends_epoch(int64_t step) const override {
    return std::floor(epoch_after(step)) > std::floor(epoch_after(step - 1));
  }

  RunParts parts() override {
    std::vector<Learner*> learners{&update_.policy()};
    if (update_.critic() != nullptr) {
      learners.push_back(update_.critic());
    }
    return {std::move(learners),
            job_.save_models,
            [this] { return saved_state(); },
            [this](const SafetensorsFile& file) { load_state(file); }};
  }

  // With the rest of a generation batch, where a checkpoint is in the middle of one.
  NamedTensors saved_state() const {
    auto state = experience_.state();
    state.emplace_back("prompts_used", at::scalar_tensor(collected_.prompts_used, at::kLong));
    state.emplace_back("kl_coef", at::scalar_tensor(collected_.kl_coef, at::kDouble));
    return state;
  }

  void load_state(const SafetensorsFile& file) {
    const auto read = [&](const char* name, at::ScalarType dtype) {
      const auto* info = file.find(name);
      TORCH_CHECK(info != nullptr && info->dtype == dtype && info->shape.empty(),
                  file.path().string(),
                  ": ",
                  name,
                  ": expected one number");
      return file.view(*info);
    };
    collected_.prompts_used = read("prompts_used", at::kLong).item<int64_t>();
    collected_.kl_coef = read("kl_coef", at::kDouble).item<double>();
    TORCH_CHECK(collected_.prompts_used >= 0 && std::isfinite(collected_.kl_coef),
                file.path().string(),
                ": prompts_used, kl_coef: expected numbers of a run");
    experience_.load(file);
  }

  void save_average() override {
    save_averaged(update_.policy(), [this] { job_.save_models(options_.output / "ema"); });
  }

  const OnlineJob& job_;
  const OnlineOptions& online_;
  Sizes sizes_;
  Collector collector_;
  OnlineUpdate update_;
  CollectorState collected_;
  Experience experience_;  // empty between generation batches
  std::unique_ptr<MetricsFile> samples_;
};

}  // namespace

TrainingSummary train_online(const OnlineJob& job,
                             const OnlineOptions& options,
                             TrainingObserver& observer,
                             const World& world) {
  return OnlineRun(job, options, observer, world).run(job.resume_from);
}

}  // namespace reprise
