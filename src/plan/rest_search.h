// One step of the search over the chain: from the rests after a place to the rest from it.
#pragma once

#include "plan/rest.h"

#include <vector>

namespace reprise::planning {

struct RestResult {
  Rest rest;
  int64_t thinned_by = 0;       ///< bytes of peak
  int64_t host_thinned_by = 0;  ///< host bytes
};

/// The rest from a place, from the units that begin there and `rests`, by place, of all after it.
RestResult extend(const std::vector<ChainUnit>& units,
                  size_t place,
                  const std::vector<Rest>& rests,
                  const RestSearch& search);

}  // namespace reprise::planning
