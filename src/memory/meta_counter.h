// Counts the bytes that meta tensors would take on the planned device: a counting allocator for the
// meta device, which allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::memory {

struct MetaCounter {
  /// For the rest of the process. Idempotent. Only later tensors are counted.
  static void install();
  static bool is_installed();
  static int64_t live();
  static int64_t peak();
  /// Sets the peak to `bytes`, but not below the live bytes.
  static void set_peak(int64_t bytes);
  /// The bytes that a request counts for: rounded as by the planned device's allocator.
  static int64_t rounded(size_t bytes);
};

}  // namespace reprise::memory
