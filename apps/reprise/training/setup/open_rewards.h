// The rewards of grpo and ppo: reward models, functions, a command, a server.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/run/run_world.h"

#include <reprise/data/prompts.h>
#include <reprise/reward/reward_list.h>

#include <memory>

namespace reprise::app {

/// Throws for rewards that cannot be made: an unknown function, a malformed URL, a command that the
/// shell cannot parse or find, a secret's file that is missing, a folder that is not that of a
/// reward model. Loads nothing.
void check_rewards(const TrainingFlags& flags);

/// Opens the rewards in the order of --reward_weights: models, functions, command, URL. Rewards
/// without a model are made first and check every row, also of `evaluation` (may be null), so that
/// a missing column is found before loading models and training. Prints the names in the metrics.
std::shared_ptr<RewardList> open_rewards(const TrainingFlags& flags,
                                         const PromptSet& prompts,
                                         const PromptSet* evaluation,
                                         const RunWorld& world,
                                         ProgressLine& progress);

}  // namespace reprise::app
