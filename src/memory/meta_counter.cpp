#include "memory/meta_counter.h"

#include "memory/large_blocks.h"

#include <reprise/detail/planned_device.h>

#include <c10/core/Allocator.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace reprise::detail {
namespace {

std::atomic<bool> installed{false};
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

constexpr size_t kCudaBlock = 512;  // of the caching allocator
constexpr size_t kPage = 4096;      // of large blocks on a CPU
constexpr size_t kMallocStep = 16, kMallocHeader = 8;

size_t rounded_up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

/// There is no data. The context, which a deleter gets, is the number of bytes itself.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int64_t size = MetaCounter::rounded(bytes);
    const int64_t now = live_bytes.fetch_add(size, std::memory_order_relaxed) + size;
    int64_t seen = peak_bytes.load(std::memory_order_relaxed);
    while (now > seen && !peak_bytes.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, never a place
    return {nullptr, reinterpret_cast<void*>(size), &forget, c10::Device(c10::kMeta)};
  }

  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}

 private:
  static void forget(void* size) {
    live_bytes.fetch_sub(reinterpret_cast<int64_t>(size), std::memory_order_relaxed);
  }
};

}  // namespace

void MetaCounter::install() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: tensors with static storage are freed through it at exit.
    static auto* allocator = new CountingAllocator();  // allow: owning-new
    c10::SetAllocator(c10::kMeta, allocator, /*priority=*/255);
    installed.store(true, std::memory_order_release);
  });
}

bool MetaCounter::is_installed() {
  return installed.load(std::memory_order_acquire);
}

int64_t MetaCounter::live() {
  return live_bytes.load(std::memory_order_relaxed);
}

int64_t MetaCounter::peak() {
  return peak_bytes.load(std::memory_order_relaxed);
}

void MetaCounter::set_peak(int64_t bytes) {
  peak_bytes.store(std::max(bytes, live()), std::memory_order_relaxed);
}

int64_t MetaCounter::rounded(size_t bytes) {
  if (bytes == 0) {
    return 0;
  }
  switch (planned_device().type) {
    case c10::kCUDA:
      return static_cast<int64_t>(rounded_up(bytes, kCudaBlock));
    case c10::kCPU:  // as CpuCounter sees them
      return static_cast<int64_t>(bytes >= LargeBlocks::kSmallest
                                      ? rounded_up(bytes, kPage)
                                      : rounded_up(bytes + kMallocHeader, kMallocStep) -
                                            kMallocHeader);
    default:
      return static_cast<int64_t>(bytes);
  }
}

}  // namespace reprise::detail
