// How fast a device copies to the host and compresses, which a trace cannot tell because it does
// neither.
#pragma once

#include "plan/cost/chain_costs.h"

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise::planning {

/// A time that is linear in bytes.
struct Pace {
  double ns = 0;
  double ns_per_byte = 0;

  int64_t of(int64_t bytes) const {
    return static_cast<int64_t>(ns + ns_per_byte * static_cast<double>(bytes));
  }
};

struct DeviceSpeeds {
  LinkCosts link = {};
  Pace masks = {};     ///< compressing and restoring bool tensors, by bytes of the tensor
  Pace floating = {};  ///< the same for floating-point tensors
};

/// Which speeds to measure.
struct SpeedsWanted {
  bool link = false;
  bool masks = false;
  bool floating = false;
};

/// Runs copies and compressions on the device's current stream. Takes a few milliseconds, and up to
/// 64 MiB on the device and on the host meanwhile.
REPRISE_API DeviceSpeeds measure_speeds(c10::Device device, const SpeedsWanted& wanted);

}  // namespace reprise::planning
