// Which examples are in which micro-batch of which optimizer step. It is a pure function of sizes
// and seed, so a resumed run only needs its step number to continue at the same example.
//
// The micro-batches of a step are distributed round-robin, so N processes do the same as one
// process with N times the accumulation, and every example is used once per epoch. All processes
// have the same number of micro-batches, since each may involve collectives; a process with one
// fewer gets a filler, whose loss does not count.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

class World;

struct MicroBatchRows {
  std::vector<int64_t> examples;
  bool is_filler = false;  ///< the examples are counted in another micro-batch
  /// The neighbours of the first and last example among those that all processes have at the same
  /// time, cyclically.
  int64_t before = 0;
  int64_t after = 0;
};

class REPRISE_API BatchPlan {
 public:
  struct Sizes {
    int64_t examples = 0;
    int64_t batch = 1;
    int64_t accumulation = 1;  ///< micro-batches per step and process
    int64_t rank = 0;
    int64_t processes = 1;
  };

  BatchPlan(const Sizes& sizes, uint64_t seed, bool shuffle);

  int64_t steps_per_epoch() const;
  /// max_steps if positive, else the optimizer steps of so many epochs.
  int64_t total_steps(double epochs, int64_t max_steps) const;
  /// Epochs done after so many steps.
  double epoch_after(int64_t steps) const;
  bool ends_epoch(int64_t step) const;  ///< whether `step`, from 1, is the last of an epoch

  /// This process's micro-batches of step number `step`, from 0. The last micro-batch of an epoch
  /// may be smaller, and the last step may have fewer of them, but the same number in all
  /// processes.
  std::vector<MicroBatchRows> micro_batches(int64_t step);

 private:
  int64_t batches_per_epoch() const;
  int64_t batches_per_step() const;
  std::vector<int64_t> examples_of(int64_t batch) const;

  Sizes sizes_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;  // the epoch of order_
  std::vector<int64_t> order_;
};

/// This process's share of the batches that visit all examples once, in order.
REPRISE_API std::vector<MicroBatchRows> share_of_batches(int64_t examples,
                                                         int64_t batch,
                                                         const World& world);

}  // namespace reprise
