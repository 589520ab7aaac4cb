// Large blocks of CPU memory, which are kept for reuse when they are freed.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace reprise::memory {

/// Note [Freed blocks are reused]
/// Training allocates the same large sizes step after step, for which malloc is bad. Below its mmap
/// threshold, a freed aligned block is often just too small for the next request of the same size,
/// so the heap grows to almost twice the live bytes. Above it, every block is mapped anew, and each
/// of its pages faults and is zeroed again.
///
/// Here blocks are parts of mappings that stay mapped when blocks are freed. Kept blocks never
/// raise the process above its peak: live and kept blocks together take at most what live blocks
/// alone took at their peak. If a new mapping would exceed that, the blocks kept longest are
/// unmapped first.
class LargeBlocks {
 public:
  static constexpr size_t kSmallest = size_t{1} << 20;

  /// Page-aligned memory with undefined content; null if there is none.
  void* allocate(size_t bytes);

  /// The requested bytes of a block, rounded up to pages; 0 if it was not allocated here.
  size_t size_of(const void* block) const;

  /// False if the block was not allocated here.
  bool free(void* block);

 private:
  struct Block {
    void* data;
    size_t size;
  };

  Block take_kept(size_t size);
  void keep(Block block);
  Block map_new(size_t size);
  void unmap_oldest();

  mutable std::mutex mutex_;
  struct Live {
    size_t requested;
    size_t mapped;
  };
  std::unordered_map<const void*, Live> live_;
  std::vector<Block> kept_;  // the longest kept first
  size_t live_bytes_ = 0;
  size_t kept_bytes_ = 0;
  size_t most_live_bytes_ = 0;
};

}  // namespace reprise::memory
