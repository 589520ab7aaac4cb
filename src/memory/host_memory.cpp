#include "memory/host_memory.h"

#include "memory/byte_count.h"
#include "memory/device_memory.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace reprise::memory {
namespace {

constexpr int64_t kMargin = 10;  // a tenth of main memory: pinned memory is lost to all others

ByteCount host_count;
std::atomic<int64_t> most_bytes{0};
HostPinning pinning;

std::atomic<bool>& cpu_tiers() {
  static std::atomic<bool> are_two = [] {
    const char* value = std::getenv("REPRISE_CPU_TIERS");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return are_two;
}

/// Memory of one tensor, and how it is given back.
struct Block {
  void* data = nullptr;
  size_t bytes = 0;
  bool is_pinned = false;      // by `pinning`
  c10::DataPtr from_libtorch;  // instead of data

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (is_pinned) {
      pinning.unpin(data);
    }
    if (data != nullptr) {
      munmap(data, bytes);
    }
    host_count.subtract(static_cast<int64_t>(bytes));
  }

  void* get() const { return data != nullptr ? data : from_libtorch.get(); }
};

[[noreturn]] void refuse(size_t bytes, const std::string& why) {
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "[offload] ",
      bytes,
      " more bytes of host memory for what leaves the device: ",
      why,
      ". ",
      host_count.live() - static_cast<int64_t>(bytes),
      " bytes are in use. Offload less, or allow more (`host_memory_budget`, free host "
      "memory, the container's limit, ulimit -l).");
}

void map(Block& block) {
  void* data =
      mmap(nullptr, block.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (data == MAP_FAILED) {
    refuse(block.bytes, "the system has no more");
  }
  block.data = data;
}

void take_pinned(Block& block) {
  if (pinning.pin == nullptr) {
    try {
      block.from_libtorch = at::getHostAllocator(c10::kCUDA)->allocate(block.bytes);
      return;
    } catch (const c10::Error& error) {
      refuse(block.bytes, std::string("it cannot be pinned: ") + error.what_without_backtrace());
    }
  }
  map(block);
  if (const char* reason = pinning.pin(block.data, block.bytes)) {
    refuse(block.bytes, std::string("it cannot be pinned: ") + reason);
  }
  block.is_pinned = true;
}

std::shared_ptr<Block> take(size_t bytes, c10::Device device) {
  auto block = std::make_shared<Block>();
  block->bytes = bytes;
  const int64_t live = host_count.add(static_cast<int64_t>(bytes));  // the block subtracts it
  const int64_t most = most_bytes.load(std::memory_order_relaxed);
  if (most > 0 && live > most) {
    refuse(bytes, "the limit is " + std::to_string(most) + " bytes");
  }
  if (device.is_cuda() && most == 0) {
    const DeviceMemory memory = device_memory(c10::kCPU);
    if (static_cast<int64_t>(bytes) > memory.left - memory.total / kMargin) {
      refuse(bytes,
             "only " + std::to_string(memory.left) + " are free, with a tenth of all for others");
    }
  }
  device.is_cuda() ? take_pinned(*block) : map(*block);
  host_count.raise_peak(live);
  return block;
}

}  // namespace

bool has_host_tier(c10::Device device) {
  return device.is_cuda() || (device.is_cpu() && cpu_tiers().load(std::memory_order_relaxed));
}

void set_cpu_tiers(bool are_two) {
  cpu_tiers() = are_two;
}

at::Tensor empty_on_host(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  const int64_t elements = c10::multiply_integers(sizes);
  if (device.is_meta() || elements == 0) {
    return at::empty(sizes, at::device(device.is_meta() ? c10::kMeta : c10::kCPU).dtype(dtype));
  }
  auto block = take(static_cast<size_t>(elements) * c10::elementSize(dtype), device);
  void* data = block->get();
  return at::from_blob(
      data, sizes, [block = std::move(block)](void*) {}, at::device(c10::kCPU).dtype(dtype));
}

int64_t host_bytes() {
  return host_count.live();
}

int64_t host_peak_bytes() {
  return host_count.peak();
}

void reset_host_peak_bytes() {
  host_count.set_peak(0);
}

void set_host_limit(int64_t bytes) {
  most_bytes = bytes;
}

int64_t host_limit() {
  return most_bytes;
}

void provide_host_pinning(const HostPinning& provided) {
  pinning = provided;
}

}  // namespace reprise::memory
