// Lets one allocation of this thread fail, as when memory runs out for a moment.
#pragma once

#include <cstdint>

namespace reprise::testing {

enum class Allocations : uint8_t {
  /// posix_memalign() called by LibTorch's allocator or by us: the memory of CPU tensors. Not the
  /// little that oneDNN takes for its descriptions of a product: it uses that without looking.
  Tensors,
  Objects,  ///< operator new
};

/// In its scope, counts the allocations of one kind on this thread, and lets number `failing` fail,
/// from 1; 0: none.
class FailingAllocation {
 public:
  FailingAllocation(Allocations kind, uint64_t failing);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  uint64_t count() const;
};

}  // namespace reprise::testing
