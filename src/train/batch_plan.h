// Which examples are in which micro-batch of which optimizer step: a pure function of sizes and
// seed, so that a resumed run needs no more than its step to go on where it was.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

class REPRISE_API BatchPlan {
 public:
  struct Sizes {
    int64_t examples = 0;
    int64_t batch = 1;
    int64_t accumulation = 1;
  };

  BatchPlan(const Sizes& sizes, uint64_t seed, bool shuffle);

  int64_t steps_per_epoch() const;
  /// Optimizer steps of so many epochs; max_steps if that is positive.
  int64_t total_steps(double epochs, int64_t max_steps) const;
  /// How far the epochs are after so many steps.
  double epoch_after(int64_t steps) const;
  bool ends_epoch(int64_t step) const;  ///< whether step number `step`, from 1, is an epoch's last

  /// The micro-batches of a step, from 0. The last one of an epoch may be smaller, and the last
  /// step may have fewer.
  std::vector<std::vector<int64_t>> micro_batches(int64_t step);

 private:
  int64_t batches_per_epoch() const;

  Sizes sizes_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;  // that order_ is of
  std::vector<int64_t> order_;
};

}  // namespace reprise
