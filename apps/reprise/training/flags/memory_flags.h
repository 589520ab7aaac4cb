// Memory budgets that the flags ask for.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/train/memory_budget.h>

namespace reprise::app {

/// Whether the memory planner decides what is checkpointed.
bool has_memory_budget(const TrainingFlags& flags);

/// Throws for invalid amounts.
MemoryLimits memory_limits(const TrainingFlags& flags);

/// Throws for flags that have no effect in this combination.
void check_memory_effects(const TrainingFlags& flags);

}  // namespace reprise::app
