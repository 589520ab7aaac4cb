#include "train/loop/batch_plan.h"

#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>

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
  TORCH_INTERNAL_ASSERT(sizes.rank >= 0 && sizes.rank < sizes.processes);
}

int64_t BatchPlan::batches_per_epoch() const {
  return ceil_div(sizes_.examples, sizes_.batch);
}

int64_t BatchPlan::steps_per_epoch() const {
  return ceil_div(batches_per_epoch(), batches_per_step());
}

int64_t BatchPlan::batches_per_step() const {
  return sizes_.accumulation * sizes_.processes;
}

int64_t BatchPlan::total_steps(double epochs, int64_t max_steps) const {
  if (max_steps > 0) {
    return max_steps;
  }
  const double steps = std::ceil(epochs * static_cast<double>(steps_per_epoch()));
  TORCH_CHECK(steps >= 1 && steps < 1e15, "[train] expected epochs above 0, got ", epochs);
  return static_cast<int64_t>(steps);
}

double BatchPlan::epoch_after(int64_t steps) const {
  const int64_t whole = steps / steps_per_epoch();
  const int64_t batches = (steps % steps_per_epoch()) * batches_per_step();
  return static_cast<double>(whole) +
         static_cast<double>(batches) / static_cast<double>(batches_per_epoch());
}

bool BatchPlan::ends_epoch(int64_t step) const {
  return step % steps_per_epoch() == 0;
}

std::vector<int64_t> BatchPlan::examples_of(int64_t batch) const {
  return {order_.begin() + batch * sizes_.batch,
          order_.begin() + std::min((batch + 1) * sizes_.batch, sizes_.examples)};
}

std::vector<MicroBatchRows> BatchPlan::micro_batches(int64_t step) {
  const int64_t epoch = step / steps_per_epoch();
  if (epoch != epoch_) {
    order_ = epoch_order(sizes_.examples, seed_, epoch, shuffle_);
    epoch_ = epoch;
  }
  const int64_t first = (step % steps_per_epoch()) * batches_per_step();
  const int64_t count = std::min(batches_per_step(), batches_per_epoch() - first);
  // A filler repeats a batch of this process, which is in memory anyway, or else the first one.
  const int64_t spare = first + (sizes_.rank < count ? sizes_.rank : 0);
  std::vector<MicroBatchRows> batches;
  for (int64_t i = sizes_.rank; std::ssize(batches) < ceil_div(count, sizes_.processes);
       i += sizes_.processes) {
    const bool is_filler = i >= count;
    const int64_t batch = is_filler ? spare : first + i;
    const int64_t round =
        first + (i - sizes_.rank);  // the first of those computed at the same time
    const int64_t round_end = std::min(round + sizes_.processes, first + count);
    batches.push_back({examples_of(batch),
                       is_filler,
                       examples_of(batch > round ? batch - 1 : round_end - 1).back(),
                       examples_of(batch + 1 < round_end ? batch + 1 : round).front()});
  }
  return batches;
}

std::vector<MicroBatchRows> share_of_batches(int64_t examples, int64_t batch, const World& world) {
  BatchPlan plan({examples, batch, /*accumulation=*/examples, world.rank(), world.size()},
                 /*seed=*/0,
                 /*shuffle=*/false);
  return plan.micro_batches(0);  // all batches are in one step
}

}  // namespace reprise
