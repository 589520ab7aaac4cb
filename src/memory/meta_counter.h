// Bytes that tensors without memory would take on the device that is planned for: a counting
// allocator for the meta device, which allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::detail {

struct MetaCounter {
  /// For the rest of the process; calling it again does nothing. Only what is made afterwards
  /// counts.
  static void install();
  static bool is_installed();
  static int64_t live();
  static int64_t peak();
  /// Sets the peak to `bytes`, but not below what is alive.
  static void set_peak(int64_t bytes);
  /// What a request counts for: as the planned device's allocator rounds it.
  static int64_t rounded(size_t bytes);
};

}  // namespace reprise::detail
