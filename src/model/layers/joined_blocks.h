// Blocks that a memory plan joins in one outer checkpointed region, which recomputes all of them
// from its input.
#pragma once

#include "model/layers/block.h"

#include <reprise/detail/planned_region.h>
#include <reprise/options.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace reprise {

/// The regions that the active memory plan joins from block `first` on; std::nullopt: none, the
/// block is a region by itself. There must be an active plan. `regions` has one entry per block,
/// null for plain blocks. Block `first` is about to run as a region, so the ones after it will too.
std::optional<detail::JoinedRegions> joined_from(
    const std::vector<std::shared_ptr<const CheckpointOptions>>& regions, size_t first);

/// Runs the joined blocks, each with its own context.
at::Tensor run_joined(const detail::JoinedRegions& joined,
                      const std::vector<std::shared_ptr<Block>>& blocks,
                      const std::vector<AttentionContext>& contexts,
                      size_t first,
                      const Pass& pass,
                      at::Tensor x);

}  // namespace reprise
