// Lets one allocation of this thread fail, as when memory runs out for a moment.
#pragma once

#include <cstdint>

namespace reprise::testing {

enum class Allocations : uint8_t {
  Tensors,  ///< posix_memalign(): the memory of CPU tensors
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
