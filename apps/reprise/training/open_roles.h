// The models of online training: the policy, the critic of ppo, the reference.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"
#include "reprise/training/open_model.h"

#include <reprise/text/tokenizer.h>
#include <reprise/train/reference.h>

#include <filesystem>
#include <optional>

namespace reprise::app {

struct Roles {
  TrainedModel policy;
  std::optional<TrainedModel> critic;  ///< ppo
  std::optional<Reference> reference;  ///< if the KL from it counts
};

/// Loads what the flags need, each checkpointed as its role is, and prints where the critic and the
/// reference come from. Throws if the critic cannot read the policy's tokens.
Roles open_roles(const TrainingFlags& flags,
                 const Tokenizer& tokenizer,
                 const RunWorld& world,
                 ProgressLine& progress);

/// The policy, or its adapter, and the critic in folder/critic.
void save_roles(const Roles& roles, const std::filesystem::path& folder);

/// As they are in a checkpoint of their run.
void load_roles(const Roles& roles, const std::filesystem::path& checkpoint);

}  // namespace reprise::app
