// The counting allocator behind track_cpu_memory().
#pragma once

#include <cstdint>

namespace reprise::memory {

struct CpuCounter {
  static void install();
  static bool is_installed();
  static int64_t live();
  static int64_t peak();
  /// The bytes that a live block counts for.
  static int64_t size_of(const void* data);
  /// Sets the peak to `bytes`, but not below the live bytes.
  static void set_peak(int64_t bytes);
};

}  // namespace reprise::memory
