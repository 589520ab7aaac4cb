#include "checkpoint/offload_tier.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

namespace reprise::detail {

Arrival::~Arrival() = default;
Tier::~Tier() = default;

namespace {

/// A power of two, because LibTorch's allocator of pinned memory rounds up to one. A copy of this
/// size takes many times longer than its launch.
constexpr size_t kPageBytes = size_t{8} << 20;

class StreamArrival final : public Arrival {
 public:
  explicit StreamArrival(const c10::Stream& queue) : event_(queue.device_type()) {
    event_.record(queue);
  }
  void wait(const c10::Stream& stream) const override { event_.block(stream); }

 private:
  c10::Event event_;
};

class StreamTier final : public Tier {
 public:
  explicit StreamTier(size_t smallest_bytes) : smallest_bytes_(smallest_bytes) {}

  bool serves(c10::Device device) const override { return device.is_cuda(); }
  size_t smallest_bytes() const override { return smallest_bytes_; }
  size_t page_bytes() const override { return kPageBytes; }

  at::Tensor make_page() const override {
    try {
      return at::empty({static_cast<int64_t>(kPageBytes)},
                       at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    } catch (const c10::Error& error) {
      TORCH_CHECK(false,
                  "[offload] the system refused to pin ",
                  kPageBytes,
                  " bytes of host memory: ",
                  error.what_without_backtrace(),
                  ". Offload less, lower the host budget, or allow more (free host memory, the "
                  "container's limit, ulimit -l).");
    }
  }

  void empty_cache() const override { at::getHostAllocator(c10::kCUDA)->empty_cache(); }

  std::unique_ptr<Arrival> begin(c10::Device device, const std::vector<ByteCopy>& copies) override {
    const c10::impl::VirtualGuardImpl impl(device.type());
    const c10::Stream queue = queue_of(device, impl);
    c10::Event ready(device.type());
    ready.record(impl.getStream(device));
    ready.block(queue);
    try {
      const c10::StreamGuard guard(queue);
      for (const auto& [to, from] : copies) {
        to.copy_(from, /*non_blocking=*/true);
      }
      return std::make_unique<StreamArrival>(queue);
    } catch (...) {
      impl.synchronizeStream(queue);  // what was begun holds nothing of the caller's any more
      throw;
    }
  }

 private:
  /// One queue for both directions: forward sends, backward fetches, and pages that are reused need
  /// no events among themselves.
  c10::Stream queue_of(c10::Device device, const c10::impl::VirtualGuardImpl& impl) {
    const std::scoped_lock lock(mutex_);
    const auto found = queues_.find(device.index());
    return found != queues_.end()
               ? found->second
               : queues_.emplace(device.index(), impl.getStreamFromGlobalPool(device))
                     .first->second;
  }

  const size_t smallest_bytes_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> queues_;
};

}  // namespace

std::shared_ptr<Tier> make_stream_tier(size_t smallest_bytes) {
  return std::make_shared<StreamTier>(smallest_bytes);
}

}  // namespace reprise::detail
