#include "checkpoint/offload/backend.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

namespace reprise::detail {

CopyEvent::~CopyEvent() = default;
OffloadBackend::~OffloadBackend() = default;

namespace {

/// A power of two, because LibTorch's pinned allocator rounds up to one. Copying this much takes
/// many times longer than launching the copy.
constexpr size_t kPageBytes = size_t{8} << 20;

class StreamCopyEvent final : public CopyEvent {
 public:
  explicit StreamCopyEvent(const c10::Stream& copy_stream) : event_(copy_stream.device_type()) {
    event_.record(copy_stream);
  }
  void wait(const c10::Stream& stream) const override { event_.block(stream); }

 private:
  c10::Event event_;
};

class StreamBackend final : public OffloadBackend {
 public:
  explicit StreamBackend(size_t smallest_bytes) : smallest_bytes_(smallest_bytes) {}

  bool supports(c10::Device device) const override { return device.is_cuda(); }
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

  std::unique_ptr<CopyEvent> begin(c10::Device device,
                                   const std::vector<ByteCopy>& copies) override {
    const c10::impl::VirtualGuardImpl impl(device.type());
    const c10::Stream copy_stream = copy_stream_of(device, impl);
    c10::Event ready(device.type());
    ready.record(impl.getStream(device));
    ready.block(copy_stream);
    try {
      const c10::StreamGuard guard(copy_stream);
      for (const auto& [to, from] : copies) {
        to.copy_(from, /*non_blocking=*/true);
      }
      return std::make_unique<StreamCopyEvent>(copy_stream);
    } catch (...) {
      impl.synchronizeStream(
          copy_stream);  // the copies that were launched no longer use the tensors
      throw;
    }
  }

 private:
  /// One stream for both directions: forward only offloads and backward only fetches, and reused
  /// pages need no events between their copies.
  c10::Stream copy_stream_of(c10::Device device, const c10::impl::VirtualGuardImpl& impl) {
    const std::scoped_lock lock(mutex_);
    const auto found = copy_streams_.find(device.index());
    return found != copy_streams_.end()
               ? found->second
               : copy_streams_.emplace(device.index(), impl.getStreamFromGlobalPool(device))
                     .first->second;
  }

  const size_t smallest_bytes_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> copy_streams_;
};

}  // namespace

std::shared_ptr<OffloadBackend> make_stream_backend(size_t smallest_bytes) {
  return std::make_shared<StreamBackend>(smallest_bytes);
}

}  // namespace reprise::detail
