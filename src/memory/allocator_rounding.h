// How far predicted and measured bytes may differ because allocators round: malloc every tensor by
// a few bytes, CUDA's allocator next to nothing.
#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>

namespace reprise::memory {

struct AllocatorRounding {
  double share = 0;
  int64_t bytes = 0;
};

inline AllocatorRounding allocator_rounding(c10::DeviceType device) {
  return device == c10::kCPU ? AllocatorRounding{0.01, 16 << 10}
                             : AllocatorRounding{0.002, 2 << 20};
}

/// A budget that a prediction of `bytes` fits.
inline int64_t budget_for(int64_t bytes, c10::DeviceType device) {
  const auto [share, fixed] = allocator_rounding(device);
  return static_cast<int64_t>(static_cast<double>(bytes + fixed) / (1 - share)) + 2;
}

/// What a plan may predict so that a step stays within `bytes`.
inline int64_t planned_bytes(int64_t bytes, c10::DeviceType device) {
  const auto [share, fixed] = allocator_rounding(device);
  return static_cast<int64_t>(static_cast<double>(bytes) * (1 - share)) - fixed;
}

}  // namespace reprise::memory
