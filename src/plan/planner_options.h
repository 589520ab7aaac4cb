// What a plan may use.
#pragma once

#include "plan/device_speeds.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::planning {

struct PlannerOptions {
  int64_t host_bytes = 0;         ///< of host memory; 0: nothing is offloaded
  bool allow_lossy = false;       ///< compression that changes bits
  bool counts_gradients = false;  ///< budgets cover the gradients that the step leaves behind, too
  /// Host memory and lossy compression that this step has no use for are an error; otherwise they
  /// are left out.
  bool must_have_effect = true;
  /// Regions that may be joined in one outer region, where their code can join them; 1: none.
  size_t longest_segment = SIZE_MAX;
  std::optional<DeviceSpeeds> speeds = {};  ///< none: measured on the trace's device
};

}  // namespace reprise::planning
