// What is asked of a world of several processes.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/parallel/spread.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::app {

/// As --parallel says; ddp if it was not given.
Parallel strategy_of(const TrainingFlags& flags);

/// How a model is spread, but for the device and type that it gets.
SpreadOptions spread_options(const TrainingFlags& flags);

/// How long processes wait for each other.
std::chrono::milliseconds timeout_of_world(const TrainingFlags& flags);

/// Throws for flags that have no effect beside each other.
void check_parallel_effects(const TrainingFlags& flags);

/// Throws for flags that have no effect, or cannot be had, in a world of this size. Nothing: the
/// process is not one of a world. One that was started as the only one of a world has all flags of
/// a world, so that it can be compared with larger ones.
void check_world_effects(const TrainingFlags& flags, std::optional<int64_t> world_size);

/// Throws, saying what there is instead, if users of other programs know this name of a flag for a
/// kind of parallelism that there is not, or that is asked for by another name here.
void refuse_other_parallelism(const std::string& name);

}  // namespace reprise::app
