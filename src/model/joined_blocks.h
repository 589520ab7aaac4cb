// Blocks that a memory plan joins in one outer region, which recomputes them from its own input.
#pragma once

#include "model/block.h"

#include <reprise/detail/planned_region.h>
#include <reprise/options.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace reprise {

/// What the plan in force, which there has to be, joins from block `first` on; nothing: the block
/// is asked about by itself. `regions` are those of all blocks, null for plain ones; block `first`
/// is about to run as a region, so those after it will.
std::optional<detail::JoinedRegions> joined_from(
    const std::vector<std::shared_ptr<const CheckpointOptions>>& regions, size_t first);

/// Runs them, each with the context that it has alone.
at::Tensor run_joined(const detail::JoinedRegions& joined,
                      const std::vector<std::shared_ptr<Block>>& blocks,
                      const std::vector<AttentionContext>& contexts,
                      size_t first,
                      const Pass& pass,
                      at::Tensor x);

}  // namespace reprise
