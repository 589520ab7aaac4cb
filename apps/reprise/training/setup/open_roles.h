// The models of online training: the policy, the critic of ppo, the reference.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/text/tokenizer.h>
#include <reprise/train/reference.h>

#include <filesystem>
#include <optional>

namespace reprise::app {

struct Roles {
  TrainedModel policy;
  std::optional<TrainedModel> critic;  ///< ppo
  std::optional<Reference> reference;  ///< if the KL from it is used
};

/// Loads the models that the flags need, with the checkpointing of their role, and prints where the
/// critic and the reference come from. Throws if the critic does not support the policy's tokens.
Roles open_roles(const TrainingFlags& flags,
                 const Tokenizer& tokenizer,
                 const RunWorld& world,
                 ProgressLine& progress);

/// Saves the policy or its adapter, and the critic in folder/critic.
void save_roles(const Roles& roles, const std::filesystem::path& folder);

/// Loads the policy and the critic from a checkpoint of the run.
void load_roles(const Roles& roles, const std::filesystem::path& checkpoint);

}  // namespace reprise::app
