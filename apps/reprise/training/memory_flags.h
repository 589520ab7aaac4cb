// What is asked of the memory planner.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/train/memory_budget.h>

namespace reprise::app {

/// Whether plans decide what is checkpointed.
bool has_memory_budget(const TrainingFlags& flags);

/// Throws for amounts that are none.
MemoryLimits memory_limits(const TrainingFlags& flags);

/// Throws for flags that have no effect beside each other.
void check_memory_effects(const TrainingFlags& flags);

}  // namespace reprise::app
