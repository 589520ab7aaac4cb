// Gradient checkpointing of ppo's two trained models: flags for both, and for either.
#pragma once

#include "reprise/training/flags.h"

#include <cstdint>
#include <string>

namespace reprise::app {

enum class Role : uint8_t { Actor, Critic };

/// "actor", "critic": what the names of their flags begin with.
std::string to_string(Role role);

/// What is asked for a model: --gradient_checkpointing..., of ppo as --actor. or --critic. changes
/// it. ratio and layers are two ways to choose blocks, so that either of a role's replaces both.
/// Throws as checkpointing_request(flags) does.
CheckpointingRequest checkpointing_request(const TrainingFlags& flags, Role role);

/// Throws for flags of roles that contradict each other, and for those of both roles that each
/// replaces by its own.
void check_role_checkpointing(const TrainingFlags& flags);

}  // namespace reprise::app
