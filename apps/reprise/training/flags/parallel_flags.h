// Training in several processes, as the flags ask for.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/parallel/shard.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::app {

/// The value of --parallel; ddp if it was not given.
Parallel strategy_of(const TrainingFlags& flags);

/// How a model is sharded, without device and data type.
ShardOptions shard_options(const TrainingFlags& flags);

/// How long processes wait for each other.
std::chrono::milliseconds timeout_of_world(const TrainingFlags& flags);

/// Throws for flags that have no effect in this combination.
void check_parallel_effects(const TrainingFlags& flags);

/// Throws for flags without effect, or unsupported, in a world of this size. std::nullopt: the
/// process was not launched as part of a world. A world of one process supports all flags, so that
/// it can be compared with larger ones.
void check_world_effects(const TrainingFlags& flags, std::optional<int64_t> world_size);

/// What to say behind a flag that other programs have for a kind of parallelism that is unsupported
/// or has another name here; empty: it is none.
std::string about_parallelism(const std::string& name);

}  // namespace reprise::app
