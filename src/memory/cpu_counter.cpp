// The counting allocator of CPU tensors: small blocks come from LibTorch's own allocator, large
// ones are reused (Note [Freed blocks are reused]).
//
// Note [Sizes are asked back]
// LibTorch requires that the data pointer of a CPU block is also its context (raw_allocate checks
// it), so the size cannot be stored there. For small blocks it is asked from malloc_usable_size
// when they are freed, which is the size that malloc rounded the request to.
#include "memory/cpu_counter.h"

#include "memory/allocation_watch.h"
#include "memory/byte_count.h"
#include "memory/large_blocks.h"
#include "memory/phase_bytes.h"
#include "memory/thread_bytes.h"

#include <c10/core/CPUAllocator.h>

#include <malloc.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace reprise::memory {
namespace {

std::atomic<bool> cpu_counter_installed{false};
ByteCount cpu_bytes;
thread_local int uncounted_scopes = 0;

class CpuCountingAllocator final : public c10::Allocator {
 public:
  explicit CpuCountingAllocator(c10::Allocator* small) { small_ = small; }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes >= LargeBlocks::kSmallest) {
      data = large().allocate(bytes);
    }
    if (data == nullptr && bytes > 0) {
      // If there is no memory, LibTorch's own allocator throws.
      data = small_->raw_allocate(bytes);
    }
    if (data != nullptr && uncounted_scopes == 0) {
      const int64_t size = size_of(data);
      try {
        thread_bytes::check_limit(size);
      } catch (...) {
        free_block(data);
        throw;
      }
      const int64_t live = cpu_bytes.add(size);
      if (auto& watch = cpu_watch(); watch.is_on() && !watch.admits(live)) {
        cpu_bytes.subtract(size);
        free_block(data);
        watch.refuse(size, live, c10::kCPU);
      }
      cpu_bytes.raise_peak(live);
      thread_bytes::note_allocated(data, size);
      phase_bytes::note_allocated(data, size, live);
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
    // Never destroyed: tensors with static storage duration are freed at exit.
    static auto* blocks = new LargeBlocks();  // allow: owning-new
    return *blocks;
  }

  static void free_counted(void* data) {
    if (data == nullptr) {
      return;
    }
    if (uncounted_scopes == 0) {
      const int64_t size = size_of(data);
      cpu_bytes.subtract(size);
      thread_bytes::note_freed(data, size);
      phase_bytes::note_freed(data);
    }
    free_block(data);
  }

  static void free_block(void* data) {
    if (!large().free(data)) {
      small_->raw_deallocate(data);
    }
  }

  // Static, because a deleter is a plain function. There is one counting allocator per process.
  static inline c10::Allocator* small_ = nullptr;
};

}  // namespace

void CpuCounter::install() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Highest priority, so that no allocator registered later replaces it. Never destroyed: tensors
    // with static storage duration are freed through it at exit.
    static auto* allocator = new CpuCountingAllocator(c10::GetCPUAllocator());  // allow: owning-new
    c10::SetCPUAllocator(allocator, /*priority=*/255);
    cpu_counter_installed.store(true, std::memory_order_release);
  });
}

bool CpuCounter::is_installed() {
  return cpu_counter_installed.load(std::memory_order_acquire);
}

int64_t CpuCounter::live() {
  return cpu_bytes.live();
}

int64_t CpuCounter::peak() {
  return cpu_bytes.peak();
}

int64_t CpuCounter::size_of(const void* data) {
  // malloc_usable_size only reads, but its parameter is not const.
  return data == nullptr ? 0 : CpuCountingAllocator::size_of(const_cast<void*>(data));
}

void CpuCounter::set_peak(int64_t bytes) {
  cpu_bytes.set_peak(bytes);
}

UncountedWorkspace::UncountedWorkspace() {
  ++uncounted_scopes;
}

UncountedWorkspace::~UncountedWorkspace() {
  --uncounted_scopes;
}

}  // namespace reprise::memory
