// Flags that contradict each other, or that would be ignored: a run that does not do what its flags
// say is found out only when it is over.
#pragma once

#include "reprise/training/flags.h"

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace reprise::app {

/// Throws naming the flag and the reason.
void check_effects(const TrainingFlags& flags);

/// The part about the losses of dpo.
void check_preference_effects(const TrainingFlags& flags);

/// The part about the reference of dpo and kto.
void check_reference_effects(const TrainingFlags& flags);

/// Values of grpo and ppo that follow from others, and other spellings of the same: the loss of the
/// estimator, gspo, a KL that is in the loss and so not in the reward. To be called before they are
/// checked.
void complete_online(TrainingFlags& flags, const std::set<std::string>& said);
/// The part about grpo and ppo.
void check_online_effects(const TrainingFlags& flags);

/// Throws "--name has no effect REASON" for the first of the names that was given; a switch that is
/// off, or a 0 that is the default, asks for nothing and is let through.
void refuse(const TrainingFlags& flags,
            std::initializer_list<const char*> names,
            const std::string& reason);

/// Whether adapters are trained: new ones, or those of --adapter.
bool trains_lora(const TrainingFlags& flags);
/// Flags that say what new adapters are like.
const std::vector<std::string>& lora_settings();

}  // namespace reprise::app
