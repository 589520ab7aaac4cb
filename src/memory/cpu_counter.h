// The counting allocator behind track_cpu_memory().
#pragma once

#include <cstdint>

namespace reprise::detail {

struct CpuCounter {
  static void install();
  static bool is_installed();
  static int64_t live();
  static int64_t peak();
  /// Sets the peak to `bytes`, but not below what is alive.
  static void set_peak(int64_t bytes);
};

}  // namespace reprise::detail
