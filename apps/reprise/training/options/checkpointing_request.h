// What the flags ask of gradient checkpointing.
#pragma once

#include "reprise/training/flags/flags.h"

#include <string>

namespace reprise::app {

/// The checkpointing flags with --gradient_checkpointing_kwargs merged in.
struct CheckpointingRequest {
  bool enabled = false;
  std::string blocks = "all";  ///< as BlockChoice::parse takes it
  std::string policy = "full";
  bool use_reentrant = false;
  bool preserve_rng_state = true;
  std::string determinism_check = "default";  ///< default, none, values
  bool early_stop = true;
};

/// Throws for unknown keys, contradictions, and settings without --gradient_checkpointing.
CheckpointingRequest checkpointing_request(const TrainingFlags& flags);

}  // namespace reprise::app
