// Reward models: the chosen of two responses should score higher.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/reward.h>
#include <reprise/train/objective.h>

#include <memory>

namespace reprise {

struct RmOptions {
  RewardOptions loss = {};
  Pooling pooling = Pooling::RightmostNotPad;
  bool use_margin = true;  ///< rows without one have 0
};

/// `model` has a Score head of one label. Mean and deviation of the rewards of the last evaluation
/// are saved as reward_mean and reward_std: in config.json, beside an adapter in
/// reward_statistics.json. They are part of state(), so a checkpoint has those of its own weights.
REPRISE_API std::unique_ptr<TrainingObjective> make_rm(std::shared_ptr<Model> model,
                                                       const RmOptions& options = {});

}  // namespace reprise
