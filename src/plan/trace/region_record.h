// One region while its step is traced, beside the TracedRegion that it becomes.
#pragma once

#include "plan/trace/region_inputs.h"
#include "plan/trace/region_ops.h"

#include <cstddef>
#include <memory>
#include <optional>

namespace reprise::detail {
class Frame;
}

namespace reprise::planning {

struct RegionRecord {
  std::weak_ptr<detail::Frame> frame;  ///< keeps the address below from being reused
  const detail::Frame* id = nullptr;
  RegionInputs inputs;
  RegionOps ops;
  // Marks of the TraceClock.
  size_t begun = 0, ended = 0;
  std::optional<size_t> recompute_begun = {}, recompute_ended = {}, backward_ended = {};
};

}  // namespace reprise::planning
