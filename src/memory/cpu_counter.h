// The counting allocator behind track_cpu_memory().
#pragma once

#include <reprise/export.h>

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

/// Blocks that this thread allocates and frees meanwhile are counted nowhere and refused by no
/// budget. Only for the workspace of a kernel, which lives no longer than its call: MKL's is not
/// counted either.
class REPRISE_API UncountedWorkspace {
 public:
  UncountedWorkspace();
  ~UncountedWorkspace();
  UncountedWorkspace(const UncountedWorkspace&) = delete;
  UncountedWorkspace& operator=(const UncountedWorkspace&) = delete;
};

}  // namespace reprise::memory
