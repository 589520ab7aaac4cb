#include "train/batch_plan.h"

#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace reprise {

namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

BatchPlan::BatchPlan(const Sizes& sizes, uint64_t seed, bool shuffle)
    : sizes_(sizes), seed_(seed), shuffle_(shuffle) {
  TORCH_CHECK(sizes.examples > 0, "[train] there is nothing to train on.");
  TORCH_CHECK(sizes.batch > 0 && sizes.accumulation > 0,
              "[train] batch size and accumulation must be at least 1, got ",
              sizes.batch,
              " and ",
              sizes.accumulation);
}

int64_t BatchPlan::batches_per_epoch() const {
  return ceil_div(sizes_.examples, sizes_.batch);
}

int64_t BatchPlan::steps_per_epoch() const {
  return ceil_div(batches_per_epoch(), sizes_.accumulation);
}

int64_t BatchPlan::total_steps(double epochs, int64_t max_steps) const {
  if (max_steps > 0) {
    return max_steps;
  }
  const double steps = std::ceil(epochs * static_cast<double>(steps_per_epoch()));
  TORCH_CHECK(steps >= 1 && steps < 1e15, "[train] ", epochs, " epochs are no training.");
  return static_cast<int64_t>(steps);
}

double BatchPlan::epoch_after(int64_t steps) const {
  const int64_t whole = steps / steps_per_epoch();
  const int64_t batches = (steps % steps_per_epoch()) * sizes_.accumulation;
  return static_cast<double>(whole) +
         static_cast<double>(batches) / static_cast<double>(batches_per_epoch());
}

bool BatchPlan::ends_epoch(int64_t step) const {
  return step % steps_per_epoch() == 0;
}

std::vector<std::vector<int64_t>> BatchPlan::micro_batches(int64_t step) {
  const int64_t epoch = step / steps_per_epoch();
  if (epoch != epoch_) {
    order_ = epoch_order(sizes_.examples, seed_, epoch, shuffle_);
    epoch_ = epoch;
  }
  const int64_t first = (step % steps_per_epoch()) * sizes_.accumulation;
  const int64_t last = std::min(first + sizes_.accumulation, batches_per_epoch());
  std::vector<std::vector<int64_t>> batches;
  for (int64_t batch = first; batch < last; ++batch) {
    const auto begin = order_.begin() + batch * sizes_.batch;
    const auto end = order_.begin() + std::min((batch + 1) * sizes_.batch, sizes_.examples);
    batches.emplace_back(begin, end);
  }
  return batches;
}

}  // namespace reprise
