// What a plan may use, and what its budget covers.
#pragma once

#include "plan/cost/device_speeds.h"
#include "plan/cost/trace_peaks.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::planning {

struct PlannerOptions {
  int64_t host_bytes = 0;         ///< limit of host memory; 0: nothing is offloaded
  bool allow_lossy = false;       ///< compression that changes bits
  bool counts_gradients = false;  ///< budgets also cover the gradients that the step leaves behind
  /// true: host memory or lossy compression that this step cannot use is an error; false: it is
  /// ignored.
  bool must_have_effect = true;
  /// Most regions in one outer region, where their code can join them; 1: none are joined.
  size_t longest_segment = SIZE_MAX;
  std::optional<DeviceSpeeds> speeds = {};  ///< unset: measured on the trace's device

  Counted counted() const {
    return counts_gradients ? Counted::WithGradients : Counted::Activations;
  }
};

}  // namespace reprise::planning
