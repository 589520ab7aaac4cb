// The storages that a region wants to offload, each listed once however many tensors share it.
#pragma once

#include "checkpoint/offload/group.h"

#include <c10/core/Storage.h>

#include <optional>
#include <utility>
#include <vector>

namespace reprise::detail {

class OffloadCandidates {
 public:
  /// `backend` must outlive the list.
  explicit OffloadCandidates(const OffloadBackend& backend) : backend_(backend) {}

  /// Accepts the storage, or counts its bytes as not moved: if it is too small, if the backend does
  /// not support its device, or if it is not on the device of the first one (a group has one).
  void add(const c10::Storage& storage, bool is_shared) {
    if (find(storage)) {
      return;
    }
    if (!backend_.supports(storage.device())) {
      unsupported_ = storage.device();
      skip(storage.nbytes());
      return;
    }
    has_movable_ = true;
    const bool is_elsewhere =
        !items_.empty() && items_.front().storage.device() != storage.device();
    if (storage.nbytes() < backend_.smallest_bytes() || is_elsewhere) {
      skip(storage.nbytes());
    } else {
      items_.push_back({storage, is_shared});
    }
  }
  /// Counts bytes as not moved.
  void skip(size_t bytes) { bytes_not_moved_ += bytes; }

  /// Index of an accepted storage in items().
  std::optional<size_t> find(const c10::Storage& storage) const {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].storage.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
        return i;
      }
    }
    return std::nullopt;
  }

  bool is_empty() const { return items_.empty(); }
  /// Whether add() saw a storage on a device that the backend supports, of any size.
  bool has_movable() const { return has_movable_; }
  const std::vector<OffloadGroup::Item>& items() const { return items_; }
  size_t bytes_not_moved() const { return bytes_not_moved_; }
  /// A device that add() saw and the backend does not support.
  std::optional<c10::Device> unsupported_device() const { return unsupported_; }

 private:
  const OffloadBackend& backend_;
  std::vector<OffloadGroup::Item> items_;
  size_t bytes_not_moved_ = 0;
  bool has_movable_ = false;
  std::optional<c10::Device> unsupported_;
};

}  // namespace reprise::detail
