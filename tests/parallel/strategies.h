#pragma once

#include <reprise/parallel/shard.h>

namespace reprise::testing {

constexpr auto kStrategies = {Parallel::Ddp, Parallel::Zero2, Parallel::Fsdp};

}  // namespace reprise::testing
