// train_online(): makes a generation batch, takes optimizer steps on it, makes the next one.
#include <reprise/train/online.h>

#include "train/loop/run_loop.h"
#include "train/loop/stopwatch.h"
#include "train/online/experience_maker.h"
#include "train/online/online_options.h"
#include "train/online/online_update.h"

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

// Sizes of a generation batch, over all processes.
struct Sizes {
  int64_t micro_batches = 0;
  int64_t step_micro_batches = 0;  // of one optimizer step
  int64_t completions = 0;
  int64_t prompts = 0;
  int64_t steps = 0;  // optimizer steps taken on it

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

// Spreads the rows of a group over micro-batches. Depends only on the seed and the batch number.
at::Tensor shuffled(int64_t size, uint64_t seed, int64_t batch) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    order[static_cast<size_t>(i)] = i;
  }
  std::mt19937_64 random(seed + 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(batch + 1));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1],
              order[random() % i]);  // std::shuffle differs between standard libraries
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
        maker_(job, options, world),
        update_(job, options, total_, world) {
    check_job();
    generation_.kl_coef = options.kl_reward_coef;
    if (job.reference && options.offload_reference) {
      job.reference->move_to(at::kCPU);
    }
  }

 private:
  void check_job() const {
    TORCH_CHECK((job_.critic != nullptr) == (online_.estimator == OnlineEstimator::Gae),
                "[online] gae needs a critic, and other estimators take none.");
    TORCH_CHECK(job_.critic == nullptr || job_.critic->head() == HeadKind::Value,
                "[online] the critic needs a value head: load it with HeadKind::Value.");
    TORCH_CHECK(job_.reference.has_value() == needs_reference(online_),
                needs_reference(online_)
                    ? "[online] beta or kl_coef is set, but there is no reference."
                    : "[online] a reference has no effect: set beta or kl_coef.");
    TORCH_CHECK((job_.pretraining != nullptr) == (online_.pretraining_coef > 0),
                "[online] ptx_coef and pretraining data must be given together.");
  }

  Json train_step() override {
    const int64_t position = state_.step % sizes_.steps;
    Json record{{"step", state_.step + 1}};
    open_samples();
    if (position == 0) {
      make_generation_batch(record);
    }
    check_experience();
    double update_ms = 0;
    const auto batch = update_batch(position);
    {
      const Stopwatch watch(update_ms);
      if (const auto outcome = update_.step(state_.step, batch, record)) {
        note_outcome(*outcome, update_.policy());
      }
      ++state_.step;
    }
    update_ms -= update_.planning_ms();
    state_.tokens += batch.text_tokens;
    record["tokens"] = batch.text_tokens;
    record["num_tokens"] = state_.tokens;
    record["epoch"] = epoch_after(state_.step);
    record["update_ms"] = update_ms;
    record["step_ms"] =
        update_ms + record.value("rollout_ms", 0.0) + record.value("scoring_ms", 0.0);
    record["step_time"] = record["step_ms"].get<double>() / 1000;  // under TRL's name
    if (state_.step % sizes_.steps == 0) {
      experience_ = {};
    }
    return record;
  }

  // A run may resume in the middle of a generation batch, but only with the same batch size.
  void check_experience() const {
    TORCH_CHECK(experience_.size() > 0,
                "[online] the checkpoint of step ",
                state_.step,
                " lacks its generation batch.");
    TORCH_CHECK(experience_.size() == sizes_.completions,
                "[online] the checkpoint of step ",
                state_.step,
                " is in the middle of a generation batch of ",
                experience_.size(),
                " completions, but this run has ",
                sizes_.completions,
                ": resume with the same number of processes, or from a checkpoint between two "
                "generation batches.");
  }

  void make_generation_batch(Json& record) {
    const auto order = shuffled(sizes_.completions, options_.seed, state_.step / sizes_.steps);
    auto state = generation_;
    GenerationBatch next;
    try {
      next = maker_.next(sizes_.prompts, order, state);
    } catch (const std::exception&) {
      // All processes must save a checkpoint together, or none.
      if (world_.size() == 1 || maker_.failed_everywhere()) {
        save_before_failing();
      }
      throw;
    }
    generation_ = state;
    record.update(next.metrics);
    experience_ = std::move(next.experience);
    const bool shows =
        online_.samples_steps > 0 &&
        (state_.step == 0 || state_.step / online_.samples_steps !=
                                 (state_.step - sizes_.steps) / online_.samples_steps);
    if (shows && world_.is_first()) {
      write_samples(next.samples);
    }
  }

  // If a reward fails, what was learned so far is kept. Nothing has changed since the last step, so
  // a run that resumes from here is the same run.
  void save_before_failing() {
    if (state_.step == 0) {
      return;
    }
    try {
      save();
    } catch (const std::exception&) {
      // The first error is the one to report.
    }
  }

  // Drops lines that were written after the checkpoint.
  void open_samples() {
    const auto path = options_.output / "samples.jsonl";
    const bool is_wanted = online_.samples_steps > 0 || std::filesystem::exists(path);
    if (samples_ == nullptr && world_.is_first() && is_wanted) {
      samples_ = &open_log("samples.jsonl");
    }
  }

  void write_samples(const std::vector<Json>& samples) {
    for (const auto& sample : samples) {
      Json line{{"step", state_.step + 1}};
      line.update(sample);
      samples_->append(line);
    }
  }

  // This process's micro-batches of the step at this position of the generation batch.
  UpdateBatch update_batch(int64_t position) const {
    const int64_t size = options_.batch_size;
    const int64_t first = position * sizes_.step_micro_batches % sizes_.micro_batches;
    const int64_t last = first + sizes_.step_micro_batches;
    const auto step_sum = [&](const at::Tensor& values) {
      return values.slice(0, first * size, last * size).sum();
    };
    UpdateBatch batch;
    batch.step_micro_batches = sizes_.step_micro_batches;
    batch.sequences = sizes_.step_micro_batches * size;
    batch.tokens = step_sum(experience_.mask).item<double>();
    batch.text_tokens = step_sum(experience_.prompt_lengths + experience_.lengths).item<int64_t>();
    batch.generation_tokens = experience_.tokens();
    for (int64_t i = first + world_.rank(); i < last; i += world_.size()) {
      batch.micro_batches.push_back(
          slice_experience(experience_, i * size, size, job_.policy->device()));
    }
    return batch;
  }

  bool has_evaluation() const override { return job_.eval_prompts != nullptr; }
  Json evaluate() override { return maker_.evaluate(); }

  double epoch_after(int64_t steps) const override {
    return static_cast<double>(steps * sizes_.prompts) /
           static_cast<double>(sizes_.steps * job_.prompts->size());
  }

  bool ends_epoch(int64_t step) const override {
    return std::floor(epoch_after(step)) > std::floor(epoch_after(step - 1));
  }

  std::vector<Learner*> learners() override {
    std::vector<Learner*> learners{&update_.policy()};
    if (update_.critic() != nullptr) {
      learners.push_back(update_.critic());
    }
    return learners;
  }

  void save_models(const std::filesystem::path& folder) override { job_.save_models(folder); }

  // Includes the generation batch if the checkpoint is in the middle of one.
  NamedTensors extra_state() const override {
    auto state = experience_.state();
    state.emplace_back("prompts_used", at::scalar_tensor(generation_.prompts_used, at::kLong));
    state.emplace_back("kl_coef", at::scalar_tensor(generation_.kl_coef, at::kDouble));
    return state;
  }

  void load_extra_state(const TensorFile& file) override {
    const auto read = [&](const char* name, at::ScalarType dtype) {
      const auto* info = file.find(name);
      TORCH_CHECK(info != nullptr && info->dtype == dtype && info->shape.empty(),
                  file.path().string(),
                  ": ",
                  name,
                  ": expected one number");
      return file.view(*info);
    };
    generation_.prompts_used = read("prompts_used", at::kLong).item<int64_t>();
    generation_.kl_coef = read("kl_coef", at::kDouble).item<double>();
    TORCH_CHECK(generation_.prompts_used >= 0 && std::isfinite(generation_.kl_coef),
                file.path().string(),
                ": prompts_used, kl_coef: expected a count and a finite number");
    experience_.load(file);
  }

  void save_averaged_models(const std::filesystem::path& folder) override {
    job_.save_models(folder);
  }

  const OnlineJob& job_;
  const OnlineOptions& online_;
  Sizes sizes_;
  ExperienceMaker maker_;
  OnlineUpdate update_;
  GenerationState generation_;
  Experience experience_;  // empty between generation batches
  MetricsFile* samples_ = nullptr;
};

}  // namespace

TrainingSummary train_online(const OnlineJob& job,
                             const OnlineOptions& options,
                             TrainingObserver& observer,
                             const World& world) {
  return OnlineRun(job, options, observer, world).run(job.resume_from);
}

}  // namespace reprise
