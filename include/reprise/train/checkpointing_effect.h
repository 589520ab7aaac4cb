// What activation checkpointing does in a training run: which blocks it covers, and what each
// optimizer step measured. The loop compares the two after every step and stops the run if they
// differ.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// The blocks of a model that a training run will recompute.
struct CheckpointedBlocks {
  /// Block numbers, from 0, ascending; empty if checkpointing is off. Chosen blocks below the first
  /// trained parameter need no recompute and are not included.
  std::vector<int64_t> blocks;
  std::string description;  ///< one line: "off", or "6 of 12 blocks (0-5)"
};

/// Throws if checkpointing is on but cannot have an effect, because no chosen block has a trained
/// parameter in it or below it.
REPRISE_API CheckpointedBlocks describe_checkpointing(const Model& model);

/// What checkpointing did in one optimizer step.
struct CheckpointingEffect {
  std::vector<int64_t> blocks;  ///< the blocks that ran as checkpointed regions
  int64_t recomputed = 0;       ///< recomputed regions, summed over all micro-batches
  /// Activation bytes that checkpointing did not keep, in the micro-batch that would keep the most
  /// without it. Negative if a policy keeps more than backward needs.
  int64_t bytes_dropped = 0;
  bool knows_bytes_dropped = true;  ///< false in reentrant mode
  /// The most activation bytes alive at once in a micro-batch: what `activation_memory_budget`
  /// limits.
  int64_t activation_peak_bytes = 0;
  double recompute_ms = 0;  ///< time spent recomputing, in milliseconds
  double planning_ms = 0;   ///< time spent planning before the step, not part of it
};

}  // namespace reprise
