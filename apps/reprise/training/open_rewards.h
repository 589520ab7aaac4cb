// The rewards of grpo and ppo: reward models, functions, a command, a server.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"
#include "reprise/training/run_world.h"

#include <reprise/data/prompts.h>
#include <reprise/reward/reward_list.h>

#include <memory>

namespace reprise::app {

/// In the order of --reward_weights: models, functions, command, URL. What needs no model is made
/// first and asked whether it could score every row, also those of `evaluation` (null: none), so
/// that a missing column is found before minutes of loading and hours of training. Prints what each
/// is called in the metrics.
std::shared_ptr<RewardList> open_rewards(const TrainingFlags& flags,
                                         const PromptSet& prompts,
                                         const PromptSet* evaluation,
                                         const RunWorld& world,
                                         ProgressLine& progress);

}  // namespace reprise::app
