// Does checkpointing do what was asked for? Asked after every optimizer step.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/stats.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise {

/// What checkpointing did in one optimizer step.
struct CheckpointingEffect {
  std::vector<int64_t> blocks;  ///< that were regions
  int64_t recomputed = 0;       ///< regions recomputed, all micro-batches together
  /// Per micro-batch: what would have been kept without it. 0: not known, in reentrant mode.
  int64_t bytes_dropped = 0;
  double recompute_ms = 0;
};

/// How often a region is to be made in a step, and recomputed.
struct RegionRuns {
  size_t entered = 0;
  size_t recomputed = 0;
};

/// Compares what was asked of a model with what the engine counted. Counts for the whole process,
/// so there is one at a time.
class REPRISE_API EffectCheck {
 public:
  /// Remembers what the model is asked to do now. Throws if it can have no effect: no trained
  /// parameter at or below the chosen blocks.
  explicit EffectCheck(const Model& model);

  void begin_step();
  /// Throws, saying what was asked and what happened, unless exactly the chosen blocks were
  /// regions, each was recomputed once in each of `micro_batches`, and bytes were freed by it (not
  /// known, and not asked, in reentrant mode).
  CheckpointingEffect end_step(int64_t micro_batches);
  /// The same for a step under plans, whose regions may keep all that they need: what was to become
  /// of each region, by name.
  CheckpointingEffect end_step(int64_t micro_batches,
                               const std::map<std::string, RegionRuns>& planned);

  /// Blocks that are asked to be regions and can be: none if checkpointing is off. Chosen blocks
  /// below the first trained parameter need no recompute and are not among them.
  const std::vector<int64_t>& expected() const { return expected_; }
  std::string describe() const;  ///< one line: which blocks, which policy

 private:
  void check_choice() const;
  CheckpointingEffect compare(int64_t micro_batches,
                              const std::map<std::string, RegionRuns>& planned,
                              bool frees_bytes) const;
  void check_bytes(const RegionStats& total) const;

  const Model& model_;
  std::vector<int64_t> asked_;
  std::vector<int64_t> expected_;
};

}  // namespace reprise
