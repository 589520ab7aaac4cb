// Gradient checkpointing of the two models that ppo trains: flags for both and for each.
#pragma once

#include "reprise/training/options/checkpointing_request.h"

#include <cstdint>
#include <string>

namespace reprise::app {

enum class Role : uint8_t { Actor, Critic };

/// "actor" or "critic", the prefix of the role's flags.
std::string to_string(Role role);

/// The request for one model: --gradient_checkpointing..., which flags of ppo that begin with
/// --actor. or --critic. override. A role's ratio or layers replace both, as they are two ways to
/// choose blocks. Throws as checkpointing_request(flags) does.
CheckpointingRequest checkpointing_request(const TrainingFlags& flags, Role role);

/// Throws for contradicting flags of a role, and for flags of both roles that each role overrides.
void check_role_checkpointing(const TrainingFlags& flags);

}  // namespace reprise::app
