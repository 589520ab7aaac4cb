// What a region is about to give away: each storage once, however many tensors share it.
#pragma once

#include "checkpoint/offload_parcel.h"

#include <c10/core/Storage.h>

#include <optional>
#include <utility>
#include <vector>

namespace reprise::detail {

class Outgoing {
 public:
  /// `tier` outlives it.
  explicit Outgoing(const Tier& tier) : tier_(tier) {}

  /// Takes the storage, or counts its bytes as not moved: it is too small, or on a device that the
  /// tier does not serve, or on another one than the first, since a parcel has one device.
  void add(const c10::Storage& storage, bool is_shared) {
    if (find(storage)) {
      return;
    }
    if (storage.nbytes() < tier_.smallest_bytes()) {
      stay(storage.nbytes());
    } else if (!tier_.serves(storage.device())) {
      unserved_ = storage.device();
      stay(storage.nbytes());
    } else if (!items_.empty() && items_.front().storage.device() != storage.device()) {
      stay(storage.nbytes());
    } else {
      items_.push_back({storage, is_shared});
    }
  }
  /// Counts bytes as not moved.
  void stay(size_t bytes) { bytes_not_moved_ += bytes; }

  /// The storage's item, if it goes.
  std::optional<size_t> find(const c10::Storage& storage) const {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].storage.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
        return i;
      }
    }
    return std::nullopt;
  }

  bool is_empty() const { return items_.empty(); }
  const std::vector<Parcel::Item>& items() const { return items_; }
  size_t bytes_not_moved() const { return bytes_not_moved_; }
  /// A device that something was offered from in vain.
  std::optional<c10::Device> unserved() const { return unserved_; }

 private:
  const Tier& tier_;
  std::vector<Parcel::Item> items_;
  size_t bytes_not_moved_ = 0;
  std::optional<c10::Device> unserved_;
};

}  // namespace reprise::detail
