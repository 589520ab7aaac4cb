// How bytes are moved between a device and the host: host pages, and one copy stream per device.
//
// The copies of a device run in the order they were requested, concurrently with its compute
// stream. The caller must keep the tensors of a copy alive until it is done, which a CopyEvent
// tells.
#pragma once

#include <reprise/export.h>
#include <reprise/offload.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace reprise::detail {

/// A point in a device's copy stream.
class REPRISE_API CopyEvent {
 public:
  CopyEvent() = default;
  virtual ~CopyEvent();
  CopyEvent(const CopyEvent&) = delete;
  CopyEvent& operator=(const CopyEvent&) = delete;

  /// Makes `stream` wait: work launched on it from now on runs after this point.
  virtual void wait(const c10::Stream& stream) const = 0;
};

/// Byte tensors of equal length. One of the two is a slice of a page.
struct ByteCopy {
  at::Tensor to, from;
};

/// Thread-safe.
class REPRISE_API OffloadBackend {
 public:
  OffloadBackend() = default;
  virtual ~OffloadBackend();
  OffloadBackend(const OffloadBackend&) = delete;
  OffloadBackend& operator=(const OffloadBackend&) = delete;

  /// Whether the device's memory is separate from host memory, so that offloading frees some.
  virtual bool supports(c10::Device device) const = 0;
  /// Smaller storages are not worth moving and stay on the device.
  virtual size_t smallest_bytes() const = 0;
  virtual size_t page_bytes() const = 0;
  /// Allocates a page. Throws, with advice, if the host has no memory for it.
  virtual at::Tensor make_page() const = 0;
  /// Returns the memory of freed pages to the system.
  virtual void empty_cache() const = 0;
  /// Starts `copies` between `device` and pages. They run after everything that is on the device's
  /// current stream now. If this throws, no copy is under way.
  virtual std::unique_ptr<CopyEvent> begin(c10::Device device,
                                           const std::vector<ByteCopy>& copies) = 0;
};

/// The default: pinned pages, and a stream of c10's device-generic interface, so that nothing links
/// CUDA.
REPRISE_API std::shared_ptr<OffloadBackend> make_stream_backend(
    size_t smallest_bytes = kSmallestMovedBytes);

}  // namespace reprise::detail
