#include "train/budget/auto_batch.h"

#include "train/loop/collate_rows.h"
#include "train/loop/learner.h"

#include "train/budget/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise {

namespace {

// The key of the chosen size in a checkpoint's configuration.
constexpr const char* kKey = "auto_batch_size";

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) {
      found.push_back(i);
    }
  }
  return found;
}

std::vector<int64_t> longest_examples(const Dataset& data, int64_t count) {
  std::vector<std::pair<int64_t, int64_t>> lengths;
  for (int64_t i = 0; i < data.size(); ++i) {
    lengths.emplace_back(-data.length(i), i);
  }
  count = std::min(count, data.size());
  std::partial_sort(lengths.begin(), lengths.begin() + count, lengths.end());
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) {
    indices.push_back(lengths[static_cast<size_t>(i)].second);
  }
  return indices;
}

/// The micro-batches of a trial step: one batch, repeated. Two of them stand for a step of several:
/// from the second on, gradients are already allocated.
class TrialMicroBatches final : public MicroBatches {
 public:
  TrialMicroBatches(TrainingObjective& objective, const Batch& batch, size_t count)
      : objective_(objective), batch_(batch), count_(count) {}

  size_t size() const override { return count_; }
  double total_weight() const override {
    return objective_.weight(batch_) * static_cast<double>(count_);
  }
  BatchLoss loss(size_t /*index*/, const StepContext& context) override {
    return objective_.loss(to_device(batch_, objective_.model().device()), context);
  }
  BatchShape shape(size_t /*index*/) const override { return shape_of(batch_); }
  std::string describe_non_finite(size_t /*index*/) const override {
    return "the loss of a trial step is not finite.";
  }
  int64_t frozen_bytes() const override { return objective_.frozen_bytes(); }

 private:
  TrainingObjective& objective_;
  const Batch& batch_;
  size_t count_;
};

/// Tries the sizes from the smallest on.
std::vector<BatchTrial> try_sizes(const TrainingJob& job,
                                  const TrainerOptions& options,
                                  const World& world) {
  const int64_t rows = options.batch_size * options.accumulation;
  const auto examples = longest_examples(*job.data, rows);
  Learner learner("", job.objective.model(), options, /*total_steps=*/1, world);
  std::vector<BatchTrial> trials;
  for (const int64_t size : divisors(rows)) {
    const bool is_too_small = options.collate.mismatch && size < 2;
    if (is_too_small || size > std::ssize(examples)) {
      continue;
    }
    const std::vector<int64_t> chosen(examples.begin(), examples.begin() + size);
    const Batch batch = collate_examples(*job.data, chosen, options.collate);
    BatchTrial trial{.batch_size = size};
    bool fits = true;
    world.run_on_all("a trial of a batch size", [&] {
      try {
        TrialMicroBatches micro_batches(job.objective, batch, size == rows ? 1 : 2);
        const auto tokens =
            static_cast<double>(batch.main.tokens) * static_cast<double>(micro_batches.size());
        const auto measured = learner.trial_step(micro_batches);
        trial.tokens_per_second = tokens / measured.milliseconds * 1000;
        trial.predicted_bytes = measured.predicted_bytes;
      } catch (const std::exception& error) {
        if (trials.empty() || !is_out_of_memory(error)) {
          throw;
        }
        fits = false;
      }
    });
    if (world.max(fits ? 0 : 1, "whether a batch size fits") > 0) {
      break;  // larger ones will not fit either
    }
    // All processes must choose the same size, and they wait for the slowest.
    trial.tokens_per_second = -world.max(-trial.tokens_per_second, "the speed of a batch size");
    trials.push_back(trial);
  }
  return trials;
}

TrainerOptions with_batch(TrainerOptions options, int64_t size) {
  options.accumulation = options.batch_size * options.accumulation / size;
  options.batch_size = size;
  options.configuration[kKey] = size;
  return options;
}

}  // namespace

TrainerOptions with_fastest_batch(const TrainingJob& job,
                                  const TrainerOptions& options,
                                  TrainingObserver& observer,
                                  const World& world) {
  if (!job.resume_from.empty()) {
    const Json before = checkpoint_configuration(job.resume_from);
    TORCH_CHECK(before.contains(kKey) && before[kKey].is_number_integer() &&
                    before[kKey].get<int64_t>() > 0 &&
                    options.batch_size * options.accumulation % before[kKey].get<int64_t>() == 0,
                job.resume_from.string(),
                ": has no micro-batch size that was chosen for this run");
    return with_batch(options, before[kKey].get<int64_t>());
  }
  TORCH_CHECK(options.memory.is_set(), "[train] auto_batch is for runs within a memory budget.");
  job.objective.model().train(options.dropout);
  const auto trials = try_sizes(job, options, world);
  const auto best =
      std::max_element(trials.begin(), trials.end(), [](const BatchTrial& a, const BatchTrial& b) {
        return a.tokens_per_second < b.tokens_per_second;
      });
  TORCH_CHECK(best != trials.end(),
              "[train] auto_batch: there are fewer rows than the smallest micro-batch has.");
  auto chosen = with_batch(options, best->batch_size);
  observer.on_batch_size_chosen(trials, chosen.batch_size, chosen.accumulation);
  return chosen;
}

}  // namespace reprise
