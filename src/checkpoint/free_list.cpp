#include "checkpoint/free_list.h"

#include "checkpoint/hot_thread_local.h"

#include <new>
#include <utility>

namespace reprise::detail {
namespace {

constexpr size_t kBlockBytes = 48;
#ifdef REPRISE_SANITIZED
constexpr int kMostFree = 0;  // a use after free must be seen
#else
constexpr int kMostFree = 1024;  // per thread
#endif

struct Block {
  Block* next;
};

REPRISE_HOT_THREAD_LOCAL Block* free_blocks = nullptr;
/// How many blocks may still be added to the list: none before its first use, and none while the
/// thread ends.
REPRISE_HOT_THREAD_LOCAL int room = 0;

/// Frees the list at the end of the thread.
struct ListOwner {
  ListOwner() { room = kMostFree; }
  ~ListOwner() {
    room = 0;
    while (free_blocks != nullptr) {
      ::operator delete(std::exchange(free_blocks, free_blocks->next));
    }
  }
  ListOwner(const ListOwner&) = delete;
  ListOwner& operator=(const ListOwner&) = delete;
};

}  // namespace

void* FromFreeList::operator new(size_t bytes) {
  if (free_blocks != nullptr && bytes <= kBlockBytes) [[likely]] {
    ++room;
    return std::exchange(free_blocks, free_blocks->next);
  }
  return ::operator new(bytes <= kBlockBytes ? kBlockBytes : bytes);
}

namespace {

/// There is no room, or the thread has no list yet.
void delete_first(void* memory, size_t bytes) noexcept {
  static thread_local const ListOwner owner;
  if (room > 0 && bytes <= kBlockBytes) {
    --room;
    free_blocks = new (memory) Block{free_blocks};
  } else {
    ::operator delete(memory);
  }
}

}  // namespace

void FromFreeList::operator delete(void* memory, size_t bytes) noexcept {
  if (room > 0 && bytes <= kBlockBytes) [[likely]] {
    --room;
    free_blocks = new (memory) Block{free_blocks};
    return;
  }
  delete_first(memory, bytes);
}

}  // namespace reprise::detail
