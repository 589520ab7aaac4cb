// How bytes leave a device and come back: host pages, and a queue of copies per device.
//
// Copies of one device run in the order in which they were asked for, beside its compute stream.
// Nobody but the caller holds the tensors of a copy; an Arrival tells streams when it is over.
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

/// A point in a device's queue of copies.
class REPRISE_API Arrival {
 public:
  Arrival() = default;
  virtual ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// What `stream` is given from now on runs after this point.
  virtual void wait(const c10::Stream& stream) const = 0;
};

/// One of the two is a piece of a page.
struct ByteCopy {
  at::Tensor to, from;
};

/// Shared by threads.
class REPRISE_API Tier {
 public:
  Tier() = default;
  virtual ~Tier();
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  /// Whether host memory is another memory than this device's.
  virtual bool serves(c10::Device device) const = 0;
  /// What is smaller stays on the device.
  virtual size_t smallest_bytes() const = 0;
  virtual size_t page_bytes() const = 0;
  /// Throws, with what to do, if the host has no memory for it.
  virtual at::Tensor make_page() const = 0;
  /// Pages that were dropped go back to the system.
  virtual void empty_cache() const = 0;
  /// Begins `copies` between `device` and pages once all that the device's current stream was given
  /// so far is done. If it throws, none of them is under way.
  virtual std::unique_ptr<Arrival> begin(c10::Device device,
                                         const std::vector<ByteCopy>& copies) = 0;
};

/// Pinned pages, and streams through c10's interface for any device: nothing links CUDA.
REPRISE_API std::shared_ptr<Tier> make_stream_tier(size_t smallest_bytes = kSmallestMovedBytes);

/// Puts `tier` in place of the real one, for tests without a GPU; null brings the real one back.
REPRISE_API void set_tier_for_tests(std::shared_ptr<Tier> tier);

}  // namespace reprise::detail
