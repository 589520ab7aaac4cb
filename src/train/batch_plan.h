// Which examples are in which micro-batch of which optimizer step: a pure function of sizes and
// seed, so that a resumed run needs no more than its step to go on where it was.
//
// Processes are dealt the micro-batches of a step like cards: so many processes do what one does
// with as many times the accumulation, and every example comes once an epoch. All have the same
// number of micro-batches, since each may be a conversation: where they do not go round, those
// without one compute something that counts nothing, a filler.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

class World;

struct MicroBatchRows {
  std::vector<int64_t> examples;
  bool is_filler = false;  ///< examples that count elsewhere: here they do not
  /// Their neighbours among the examples that all processes have at a time, round and round.
  int64_t before = 0;
  int64_t after = 0;
};

class REPRISE_API BatchPlan {
 public:
  struct Sizes {
    int64_t examples = 0;
    int64_t batch = 1;
    int64_t accumulation = 1;  ///< micro-batches of a step, of each process
    int64_t rank = 0;
    int64_t processes = 1;
  };

  BatchPlan(const Sizes& sizes, uint64_t seed, bool shuffle);

  int64_t steps_per_epoch() const;
  /// Optimizer steps of so many epochs; max_steps if that is positive.
  int64_t total_steps(double epochs, int64_t max_steps) const;
  /// How far the epochs are after so many steps.
  double epoch_after(int64_t steps) const;
  bool ends_epoch(int64_t step) const;  ///< whether step number `step`, from 1, is an epoch's last

  /// This process's micro-batches of a step, from 0. The last one of an epoch may be smaller, and
  /// the last step may have fewer, the same number in all processes.
  std::vector<MicroBatchRows> micro_batches(int64_t step);

 private:
  int64_t batches_per_epoch() const;
  int64_t batches_per_step() const;
  std::vector<int64_t> examples_of(int64_t batch) const;

  Sizes sizes_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;  // that order_ is of
  std::vector<int64_t> order_;
};

/// All examples once, in their order: this process's share of the batches.
REPRISE_API std::vector<MicroBatchRows> share_of_batches(int64_t examples,
                                                         int64_t batch,
                                                         const World& world);

}  // namespace reprise
