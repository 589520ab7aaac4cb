// How fast a device copies to the host and compresses: what a trace, which does neither, cannot
// know.
#pragma once

#include "plan/costs.h"

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise::planning {

/// Time that grows with bytes from what even the smallest takes.
struct Pace {
  double ns = 0;
  double ns_per_byte = 0;

  int64_t of(int64_t bytes) const {
    return static_cast<int64_t>(ns + ns_per_byte * static_cast<double>(bytes));
  }
};

struct DeviceSpeeds {
  LinkCosts link = {};
  Pace masks = {};     ///< compressing bool and restoring it, by bytes of the tensor
  Pace floating = {};  ///< the same of floating numbers
};

/// What is asked for.
struct SpeedsWanted {
  bool link = false;
  bool masks = false;
  bool floating = false;
};

/// Runs copies and compressions on the device, on its current stream: a few milliseconds, and up to
/// 64 MiB there and on the host meanwhile.
REPRISE_API DeviceSpeeds measure_speeds(c10::Device device, const SpeedsWanted& wanted);

}  // namespace reprise::planning
