// The storages that one region gave away, wherever they are: on the device, on the host, on the
// way.
//
// Note [Parcels follow each other]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A region sends its parcel when its forward ends. The device's bytes are let go when the next
// parcel of the same thread is sent: there the compute stream waits for the copy, which had a
// region's time. So what is on the device at any moment follows from the program and not from the
// speed of the bus: two parcels at most in forward, and at its end the last one, which its own
// recompute, the first of backward, uses without fetching it. In backward a region fetches its own
// parcel and those of the regions before it (OffloadSettings::prefetch); each is let go when its
// region has been recomputed. The host's copy stays until the graph dies, for the next backward.
#pragma once

#include "checkpoint/offload_depot.h"

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

class Frame;

/// What a storage takes in the pages of a parcel: it starts where the device's allocator would let
/// it.
constexpr size_t space_in_pages(size_t bytes) {
  constexpr size_t kAlignment = 512;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The stream that this thread gives work on `device` to.
c10::Stream current_stream(c10::Device device);

class Parcel {
 public:
  struct Item {
    c10::Storage storage;
    /// The program may hold it too: then it need not be fetched as long as it does. It must not
    /// have been written since (version counters tell).
    bool is_shared;
  };

  /// Begins to copy the items, all of one device, to the host; `name` is the region's.
  Parcel(std::shared_ptr<Depot> depot, std::vector<Item> items, std::string name);
  ~Parcel();
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;

  /// Begins to bring the bytes back, unless they are there or on their way.
  void start_back();
  /// An item's bytes, for the device's current stream.
  c10::Storage take(size_t item);
  /// Lets go of the device's bytes.
  void release() noexcept;
  /// The same, at the end of the next forward: counts what the program still holds as not moved.
  void leave();

  size_t bytes() const { return bytes_; }

  std::weak_ptr<Frame> owner;  // set once, by who sends it

 private:
  struct Place {
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> shared = {};  // others may have it
    size_t bytes;
    size_t offset;  // in the pages, which are one after the other
  };
  /// A storage and its place in the pages, cut where pages end.
  void add_copies(std::vector<ByteCopy>& copies,
                  const Place& place,
                  const c10::Storage& storage,
                  bool is_out) const;
  std::unique_ptr<Arrival> begin(const std::vector<ByteCopy>& copies) const;
  void start_back_locked();
  void release_locked();

  const std::shared_ptr<Depot> depot_;
  const c10::Device device_;
  const std::string name_;
  size_t bytes_ = 0;
  std::vector<Place> places_;
  std::vector<at::Tensor> pages_;

  std::mutex mutex_;
  std::vector<c10::Storage> storages_;  // none when the bytes are on the host only
  std::unique_ptr<Arrival> arrival_;    // of the last copy
  c10::Stream stream_;                  // that the device's bytes were allocated for
  bool has_left_ = false;
  bool has_waited_ = false;  // stream_ has, for arrival_

  friend std::shared_ptr<Parcel> send(std::vector<Item> items, const std::string& name);
  friend std::vector<std::shared_ptr<Parcel>> parcels_ahead_of(const Parcel& parcel);
  std::weak_ptr<Parcel> previous_;  // of this thread
};

/// Sends a parcel after the one that this thread sent last, which leaves the device.
std::shared_ptr<Parcel> send(std::vector<Parcel::Item> items, const std::string& name);

/// Those that should come back while the region of `parcel` is recomputed: sent before it, the
/// latest first.
std::vector<std::shared_ptr<Parcel>> parcels_ahead_of(const Parcel& parcel);

}  // namespace reprise::detail
