// Note [Sizes are asked back from malloc]
// LibTorch requires that a CPU block's data pointer is also its context (raw_allocate checks it),
// so there is no room to remember a size beside it. malloc_usable_size tells it when the block is
// freed; it is what malloc rounded the request to.
#include "memory/cpu_counter.h"

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
  explicit CountingAllocator(c10::Allocator* inner) { inner_ = inner; }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : inner_->raw_allocate(bytes);
    if (data != nullptr) {
      const auto size = static_cast<int64_t>(malloc_usable_size(data));
      raise_peak(live_bytes.fetch_add(size, std::memory_order_relaxed) + size);
    }
    return {data, data, &free_counted, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void free_counted(void* data) {
    if (data != nullptr) {
      live_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(data)),
                           std::memory_order_relaxed);
      inner_->raw_deallocate(data);
    }
  }

  // Static because a deleter is a plain function; there is one counting allocator per process.
  static inline c10::Allocator* inner_ = nullptr;
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

void CpuCounter::set_peak(int64_t bytes) {
  peak_bytes.store(std::max(bytes, live()), std::memory_order_relaxed);
}

}  // namespace reprise::detail
