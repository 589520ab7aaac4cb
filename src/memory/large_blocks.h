// Large blocks of CPU memory, kept for reuse when they are freed.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace reprise::detail {

/// Note [Freed blocks are reused]
/// Training asks for the same large sizes step after step, and malloc serves that badly. Below its
/// threshold for mapping, an aligned block that was freed is often just too small for the next
/// request of its own size, so that the heap grows to almost twice of what is live. Above it, every
/// block is mapped anew, and each of its pages faults and is zeroed again.
///
/// Here blocks are pieces of mappings that stay mapped when they are freed. What is kept never
/// raises the process above its own peak: live and kept blocks together take at most what live
/// blocks alone once took. Where a new mapping would exceed that, the kept blocks that have waited
/// longest are given back first.
class LargeBlocks {
 public:
  static constexpr size_t kSmallest = size_t{1} << 20;

  /// Aligned to pages, of undefined content; null: there is no memory.
  void* allocate(size_t bytes);

  /// Bytes of a block, as they were asked for, rounded up to pages; 0: it is none of ours.
  size_t size_of(const void* block) const;

  /// False: it is none of ours.
  bool free(void* block);

 private:
  struct Block {
    void* data;
    size_t size;
  };

  Block take_kept(size_t size);
  void keep(Block block);
  Block map_new(size_t size);
  void give_back_oldest();

  mutable std::mutex mutex_;
  struct Live {
    size_t asked;
    size_t mapped;
  };
  std::unordered_map<const void*, Live> live_;
  std::vector<Block> kept_;  // longest kept first
  size_t live_bytes_ = 0;
  size_t kept_bytes_ = 0;
  size_t most_live_bytes_ = 0;
};

}  // namespace reprise::detail
