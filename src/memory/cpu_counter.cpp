// The allocator behind LibTorch's CPU tensors while their bytes are counted: small blocks come from
// LibTorch's own allocator, large ones are kept for reuse (Note [Freed blocks are reused]).
//
// Note [Sizes are asked back]
// LibTorch requires that a CPU block's data pointer is also its context (raw_allocate checks it),
// so there is no room to remember a size beside it. Of small blocks malloc_usable_size tells it
// when they are freed; it is what malloc rounded the request to.
#include "memory/cpu_counter.h"

#include "memory/allocation_watch.h"
#include "memory/large_blocks.h"

#include <c10/core/CPUAllocator.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace reprise::detail {
namespace {

std::atomic<bool> installed{false};
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void raise_peak(int64_t bytes) {
  int64_t seen = peak_bytes.load(std::memory_order_relaxed);
  while (bytes > seen &&
         !peak_bytes.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
  }
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* small) { small_ = small; }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes >= LargeBlocks::kSmallest) {
      data = large().allocate(bytes);
    }
    if (data == nullptr && bytes > 0) {
      // Where there is no memory, LibTorch's own allocator says so.
      data = small_->raw_allocate(bytes);
    }
    if (data != nullptr) {
      const int64_t size = size_of(data);
      const int64_t live = live_bytes.fetch_add(size, std::memory_order_relaxed) + size;
      if (auto& watch = cpu_watch(); watch.is_on() && !watch.admits(live)) {
        free_counted(data);
        watch.refuse(size, live, c10::kCPU);
      }
      raise_peak(live);
    }
    return {data, data, &free_counted, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  static int64_t size_of(void* data) {
    const size_t size = large().size_of(data);
    return static_cast<int64_t>(size > 0 ? size : malloc_usable_size(data));
  }

 private:
  static LargeBlocks& large() {
    // Never destroyed: tensors with static storage are freed at exit.
    static auto* blocks = new LargeBlocks();  // allow: owning-new
    return *blocks;
  }

  static void free_counted(void* data) {
    if (data != nullptr) {
      live_bytes.fetch_sub(size_of(data), std::memory_order_relaxed);
      if (!large().free(data)) {
        small_->raw_deallocate(data);
      }
    }
  }

  // Static because a deleter is a plain function; there is one counting allocator per process.
  static inline c10::Allocator* small_ = nullptr;
};

}  // namespace

void CpuCounter::install() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Highest priority: nothing that is registered later may take its place and go uncounted. Never
    // destroyed: tensors with static storage are freed through it at exit.
    static auto* allocator = new CountingAllocator(c10::GetCPUAllocator());  // allow: owning-new
    c10::SetCPUAllocator(allocator, /*priority=*/255);
    installed.store(true, std::memory_order_release);
  });
}

bool CpuCounter::is_installed() {
  return installed.load(std::memory_order_acquire);
}

int64_t CpuCounter::live() {
  return live_bytes.load(std::memory_order_relaxed);
}

int64_t CpuCounter::peak() {
  return peak_bytes.load(std::memory_order_relaxed);
}

int64_t CpuCounter::size_of(const void* data) {
  // Only asked about; malloc_usable_size takes no const.
  return data == nullptr ? 0 : CountingAllocator::size_of(const_cast<void*>(data));
}

void CpuCounter::set_peak(int64_t bytes) {
  peak_bytes.store(std::max(bytes, live()), std::memory_order_relaxed);
}

}  // namespace reprise::detail
