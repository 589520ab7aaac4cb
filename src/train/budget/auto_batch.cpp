#include "train/budget/auto_batch.h"

#include "train/evaluate.h"
#include "train/learner.h"

#include <reprise/train/out_of_memory.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise {

namespace {

// Where a checkpoint's configuration keeps what was chosen.
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

// Two micro-batches where a step has several: gradients are in place for all but the first.
StepWork rehearsal_of(TrainingObjective& objective, const Batch& batch, bool is_whole_step) {
  StepWork work;
  work.micro_batches = is_whole_step ? 1 : 2;
  work.total_weight = objective.weight(batch) * static_cast<double>(work.micro_batches);
  work.loss = [&](size_t, const StepContext& context) {
    return objective.loss(to_device(batch, objective.model().device()), context);
  };
  work.shape = [&](size_t) { return shape_of(batch); };
  work.frozen_bytes = objective.frozen_bytes();
  return work;
}

/// Tries sizes from the smallest on.
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
    world.together("a trial of a batch size", [&] {
      try {
        const auto work = rehearsal_of(job.objective, batch, size == rows);
        const auto tokens =
            static_cast<double>(batch.main.tokens) * static_cast<double>(work.micro_batches);
        const auto [ms, predicted] = learner.rehearse(work);
        trial.tokens_per_second = tokens / ms * 1000;
        trial.predicted_bytes = predicted;
      } catch (const std::exception& error) {
        if (trials.empty() || !is_out_of_memory(error)) {
          throw;
        }
        fits = false;
      }
    });
    if (world.max(fits ? 0 : 1, "whether a batch size fits") > 0) {
      break;  // nor will a larger one
    }
    // All processes choose the same, and the slowest is the one that the others wait for.
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
  observer.chose_batch(trials, chosen.batch_size, chosen.accumulation);
  return chosen;
}

}  // namespace reprise
