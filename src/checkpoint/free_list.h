// Memory of the small objects that are made for each saved tensor.
#pragma once

#include <cstddef>

namespace reprise::detail {

/// Gives a class memory from a list of free blocks, one list a thread. Hundreds of hooks of one
/// size are alive at a time, more than malloc keeps at hand.
class FromFreeList {
 public:
  static void* operator new(size_t bytes);
  static void operator delete(void* memory, size_t bytes) noexcept;
};

}  // namespace reprise::detail
