#include "memory/meta_counter.h"

#include "memory/byte_count.h"
#include "memory/large_blocks.h"
#include "memory/planned_device.h"
#include "memory/thread_bytes.h"

#include <c10/core/Allocator.h>

#include <atomic>
#include <mutex>

namespace reprise::memory {
namespace {

std::atomic<bool> meta_counter_installed{false};
ByteCount meta_bytes;

constexpr size_t kCudaBlock = 512;  // rounding of the caching allocator
constexpr size_t kPage = 4096;      // rounding of large blocks on a CPU
constexpr size_t kMallocStep = 16, kMallocHeader = 8;

size_t rounded_up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

/// There is no data. The context, which the deleter gets, is the number of bytes itself.
class MetaCountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int64_t size = MetaCounter::rounded(bytes);
    meta_bytes.raise_peak(meta_bytes.add(size));
    thread_bytes::meta_allocated(size);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
    return {nullptr, reinterpret_cast<void*>(size), &forget, c10::Device(c10::kMeta)};
  }

  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}

 private:
  static void forget(void* size) {
    meta_bytes.subtract(reinterpret_cast<int64_t>(size));
    thread_bytes::meta_freed(reinterpret_cast<int64_t>(size));
  }
};

}  // namespace

void MetaCounter::install() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: tensors with static storage duration are freed through it at exit.
    static auto* allocator = new MetaCountingAllocator();  // allow: owning-new
    c10::SetAllocator(c10::kMeta, allocator, /*priority=*/255);
    meta_counter_installed.store(true, std::memory_order_release);
  });
}

bool MetaCounter::is_installed() {
  return meta_counter_installed.load(std::memory_order_acquire);
}

int64_t MetaCounter::live() {
  return meta_bytes.live();
}

int64_t MetaCounter::peak() {
  return meta_bytes.peak();
}

void MetaCounter::set_peak(int64_t bytes) {
  meta_bytes.set_peak(bytes);
}

int64_t MetaCounter::rounded(size_t bytes) {
  if (bytes == 0) {
    return 0;
  }
  switch (planned_device().type) {
    case c10::kCUDA:
      return static_cast<int64_t>(rounded_up(bytes, kCudaBlock));
    case c10::kCPU:  // as CpuCounter counts them
      return static_cast<int64_t>(bytes >= LargeBlocks::kSmallest
                                      ? rounded_up(bytes, kPage)
                                      : rounded_up(bytes + kMallocHeader, kMallocStep) -
                                            kMallocHeader);
    default:
      return static_cast<int64_t>(bytes);
  }
}

}  // namespace reprise::memory
