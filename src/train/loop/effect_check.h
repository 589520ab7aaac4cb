// Checks after every optimizer step that activation checkpointing did what was requested.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/stats.h>
#include <reprise/train/checkpointing_effect.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise {

/// How often a region must be entered and recomputed in one step.
struct RegionRuns {
  size_t entered = 0;
  size_t recomputed = 0;
};

/// What plain execution would hold between forward and backward beyond what regions hold.
REPRISE_API int64_t bytes_dropped(const RegionStats& total);

/// Compares the checkpointing requested of a model with what the engine counted. The counters are
/// those of the whole process, so only one check may be in progress at a time.
class REPRISE_API EffectCheck {
 public:
  /// Records what the model is set to do now. Throws if that cannot have an effect: no trained
  /// parameter in or below the chosen blocks.
  explicit EffectCheck(const Model& model);

  void begin_step();
  /// Throws, with both the request and the result, unless exactly the chosen blocks were regions,
  /// each was recomputed once per micro-batch, and this freed memory. Freed bytes are unknown in
  /// reentrant mode and not checked there.
  CheckpointingEffect end_step(int64_t micro_batches);
  /// The same for a step under memory plans, whose regions may keep everything they need. `planned`
  /// has the expected runs of each region by name.
  CheckpointingEffect end_step(int64_t micro_batches,
                               const std::map<std::string, RegionRuns>& planned);

  /// See CheckpointedBlocks.
  const std::vector<int64_t>& expected() const { return expected_; }
  std::string describe() const;

 private:
  void check_choice() const;
  CheckpointingEffect compare(int64_t micro_batches,
                              const std::map<std::string, RegionRuns>& planned,
                              bool frees_bytes) const;
  void check_bytes(const RegionStats& total) const;

  const Model& model_;
  std::vector<int64_t> requested_;
  std::vector<int64_t> expected_;
};

}  // namespace reprise
