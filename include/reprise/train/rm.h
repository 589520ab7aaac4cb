// Reward models: trained on pairs, so that the chosen response scores higher than the rejected one.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/reward.h>
#include <reprise/train/objective.h>

#include <memory>

namespace reprise {

struct RmOptions {
  RewardOptions loss = {};
  Pooling pooling = Pooling::RightmostNotPad;  ///< the token whose output is the reward
  bool use_margin = true;                      ///< use the rows' margins; 0 for rows without one
};

/// Trains on rows of Objective::Rm. `model` needs a Score head with one label.
///
/// The mean and deviation of the rewards of the latest evaluation are saved with the model, as
/// reward_mean and reward_std in config.json, or in reward_statistics.json beside an adapter. They
/// are part of state(), so each checkpoint has those of its own weights.
REPRISE_API std::unique_ptr<TrainingObjective> make_rm(std::shared_ptr<Model> model,
                                                       const RmOptions& options = {});

}  // namespace reprise
