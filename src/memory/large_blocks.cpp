#include "memory/large_blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace reprise::memory {

namespace {

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t whole_pages(size_t bytes) {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

// Malloc's blocks are rarely page-aligned, so most of them need no lookup in the table.
bool may_be_ours(const void* block) {
  return reinterpret_cast<uintptr_t>(block) % page_size() == 0;
}

}  // namespace

void* LargeBlocks::allocate(size_t bytes) {
  const size_t size = whole_pages(bytes);
  if (size < bytes) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  Block block = take_kept(size);
  if (block.data == nullptr) {
    block = map_new(size);
  }
  if (block.data != nullptr) {
    live_.emplace(block.data, Live{size, block.size});
    live_bytes_ += block.size;
    most_live_bytes_ = std::max(most_live_bytes_, live_bytes_);
  }
  return block.data;
}

size_t LargeBlocks::size_of(const void* block) const {
  if (!may_be_ours(block)) {
    return 0;
  }
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(block);
  return found == live_.end() ? 0 : found->second.requested;
}

bool LargeBlocks::free(void* block) {
  if (!may_be_ours(block)) {
    return false;
  }
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(block);
  if (found == live_.end()) {
    return false;
  }
  const size_t size = found->second.mapped;
  live_.erase(found);
  live_bytes_ -= size;
  keep({block, size});
  return true;
}

// Takes the smallest block that is large enough. A large enough remainder stays kept.
LargeBlocks::Block LargeBlocks::take_kept(size_t size) {
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->size >= size && (best == kept_.end() || it->size <= best->size)) {
      best = it;
    }
  }
  if (best == kept_.end()) {
    return {nullptr, 0};
  }
  Block block = *best;
  if (block.size - size >= kSmallest) {
    *best = {static_cast<char*>(block.data) + size, block.size - size};
    block.size = size;
  } else {
    kept_.erase(best);
  }
  kept_bytes_ -= block.size;
  return block;
}

// Merges the block with kept neighbours, so that split blocks can serve large requests again.
void LargeBlocks::keep(Block block) {
  kept_bytes_ += block.size;
  for (auto it = kept_.begin(); it != kept_.end();) {
    auto* begin = static_cast<char*>(it->data);
    if (begin + it->size == block.data) {
      block = {begin, it->size + block.size};
      it = kept_.erase(it);
    } else if (static_cast<char*>(block.data) + block.size == begin) {
      block.size += it->size;
      it = kept_.erase(it);
    } else {
      ++it;
    }
  }
  kept_.push_back(block);
}

LargeBlocks::Block LargeBlocks::map_new(size_t size) {
  while (!kept_.empty() && live_bytes_ + kept_bytes_ + size > most_live_bytes_) {
    unmap_oldest();
  }
  while (true) {
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) {
      return {data, size};
    }
    if (kept_.empty()) {
      return {nullptr, 0};
    }
    unmap_oldest();
  }
}

void LargeBlocks::unmap_oldest() {
  munmap(kept_.front().data, kept_.front().size);
  kept_bytes_ -= kept_.front().size;
  kept_.erase(kept_.begin());
}

}  // namespace reprise::memory
