// One step of the search over the chain: extends the rests after a block to the rest from it.
#pragma once

#include "plan/solve/rest.h"

#include <vector>

namespace reprise::planning {

struct RestResult {
  Rest rest;
  int64_t thinned_by = 0;       ///< bytes of peak
  int64_t host_thinned_by = 0;  ///< host bytes
};

/// The rest from block `first_block` on, from the units that begin there and the rests after it.
/// `rests` are by first block.
RestResult extend(const std::vector<ChainUnit>& units,
                  size_t first_block,
                  const std::vector<Rest>& rests,
                  const RestSearch& search);

}  // namespace reprise::planning
