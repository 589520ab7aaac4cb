// The storages that one region offloads together, and where their bytes are: on the device, on the
// host, or in transfer.
//
// Note [Order of offload and fetch]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A region starts to offload its group when its forward ends. The device memory is released when
// the same thread offloads its next group: only then does the compute stream wait for the copy,
// which had the whole time of a region to finish. So what is on the device at any moment depends on
// the program and not on the speed of the bus. During forward that is at most two groups. At its
// end it is the last group, and the recompute of that region, which is the first one of backward,
// uses it without a fetch. In backward a region fetches its own group and prefetches those of the
// regions before it (OffloadSettings::prefetch). The device memory of a group is released once its
// region has been recomputed. The host copy stays until the graph is freed, for another backward.
#pragma once

#include "checkpoint/offload/host_pool.h"

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

class Frame;

/// Bytes that a storage takes up in the pages of a group: rounded up to the alignment of the
/// device's allocator.
constexpr size_t space_in_pages(size_t bytes) {
  constexpr size_t kAlignment = 512;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// This thread's current stream on `device`.
c10::Stream current_stream(c10::Device device);

class OffloadGroup {
 public:
  struct Item {
    c10::Storage storage;
    /// The program may hold it too, and while it does the storage need not be fetched. It must not
    /// have been written since; version counters check that.
    bool is_shared;
  };

  /// Starts to copy the items, all on one device, to the host. `name` is the region's.
  OffloadGroup(std::shared_ptr<HostPool> pool, std::vector<Item> items, std::string name);
  ~OffloadGroup();
  OffloadGroup(const OffloadGroup&) = delete;
  OffloadGroup& operator=(const OffloadGroup&) = delete;

  /// Starts to copy the bytes back to the device, unless they are there or on their way.
  void start_fetch();
  /// The storage of an item, ready for use on the device's current stream.
  c10::Storage take(size_t item);
  /// Frees the device memory. The host copy stays.
  void release() noexcept;
  /// The same when the next group is offloaded. Counts what the program still holds as not moved.
  void finish_offload();

  size_t bytes() const { return bytes_; }

  std::weak_ptr<Frame> owner;  // set once, by the frame that offloads the group

 private:
  struct HostRange {
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> shared = {};  // for shared items
    size_t bytes;
    size_t offset;  // in the concatenated pages
  };
  /// Adds the copies between a storage and its host range, split at page boundaries.
  void add_copies(std::vector<ByteCopy>& copies,
                  const HostRange& range,
                  const c10::Storage& storage,
                  bool to_host) const;
  std::unique_ptr<CopyEvent> begin(const std::vector<ByteCopy>& copies) const;
  void start_fetch_locked();
  void release_locked();

  const std::shared_ptr<HostPool> pool_;
  const c10::Device device_;
  const std::string name_;
  size_t bytes_ = 0;
  std::vector<HostRange> ranges_;  // by item
  std::vector<at::Tensor> pages_;

  std::mutex mutex_;
  std::vector<c10::Storage> storages_;     // by item; empty while the bytes are on the host only
  std::unique_ptr<CopyEvent> copy_event_;  // end of the last copy
  c10::Stream stream_;                     // the stream that the storages were allocated on
  bool has_left_device_ = false;
  bool has_waited_ = false;  // whether stream_ has waited for copy_event_

  friend std::shared_ptr<OffloadGroup> start_offload(std::vector<Item> items,
                                                     const std::string& name);
  friend std::vector<std::shared_ptr<OffloadGroup>> groups_to_prefetch(const OffloadGroup& group);
  std::weak_ptr<OffloadGroup> previous_;  // the group that this thread offloaded before
};

/// Starts to offload a group, and finishes the offload of this thread's previous one.
std::shared_ptr<OffloadGroup> start_offload(std::vector<OffloadGroup::Item> items,
                                            const std::string& name);

/// The groups to fetch while the region of `group` is recomputed: those offloaded before it, the
/// latest first.
std::vector<std::shared_ptr<OffloadGroup>> groups_to_prefetch(const OffloadGroup& group);

}  // namespace reprise::detail
