#include "checkpoint/offload_parcel.h"

#include "checkpoint/engine_ops.h"
#include "checkpoint/stats.h"
#include "checkpoint/storage_bytes.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

thread_local std::weak_ptr<Parcel> last_sent;

}  // namespace

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

Parcel::Parcel(std::shared_ptr<Depot> depot, std::vector<Item> items, std::string name)
    : depot_(std::move(depot)),
      device_(items.front().storage.device()),
      name_(std::move(name)),
      stream_(current_stream(device_)) {
  size_t end = 0;
  for (auto& item : items) {
    const size_t size = item.storage.nbytes();
    places_.push_back({.bytes = size, .offset = end});
    if (item.is_shared) {
      places_.back().shared.emplace(item.storage.getWeakStorageImpl());
    }
    bytes_ += size;
    end += space_in_pages(size);
    storages_.push_back(std::move(item.storage));
  }
  pages_ = depot_->take(device_, end);
  try {
    std::vector<ByteCopy> copies;
    for (size_t i = 0; i < places_.size(); ++i) {
      add_copies(copies, places_[i], storages_[i], /*is_out=*/true);
    }
    arrival_ = begin(copies);
  } catch (...) {
    depot_->give_back(device_, std::move(pages_));
    throw;
  }
}

Parcel::~Parcel() {
  release();
  depot_->give_back(device_, std::move(pages_));
}

void Parcel::add_copies(std::vector<ByteCopy>& copies,
                        const Place& place,
                        const c10::Storage& storage,
                        bool is_out) const {
  const EngineOpsGuard guard;
  const auto on_device = bytes_of(storage);
  const size_t page_bytes = depot_->tier->page_bytes();
  for (size_t done = 0; done < place.bytes;) {
    const size_t at = place.offset + done;
    const size_t in_page = at % page_bytes;
    const size_t size = std::min(place.bytes - done, page_bytes - in_page);
    const auto piece = [size](const at::Tensor& bytes, size_t start) {
      return bytes.narrow(0, static_cast<int64_t>(start), static_cast<int64_t>(size));
    };
    auto host = piece(pages_[at / page_bytes], in_page);
    auto device = piece(on_device, done);
    copies.push_back(is_out ? ByteCopy{std::move(host), std::move(device)}
                            : ByteCopy{std::move(device), std::move(host)});
    done += size;
  }
}

std::unique_ptr<Arrival> Parcel::begin(const std::vector<ByteCopy>& copies) const {
  const EngineOpsGuard guard;
  return depot_->tier->begin(device_, copies);
}

void Parcel::start_back() {
  const std::scoped_lock lock(mutex_);
  start_back_locked();
}

void Parcel::start_back_locked() {
  if (!storages_.empty()) {
    return;
  }
  std::vector<c10::Storage> storages;
  std::vector<ByteCopy> copies;
  size_t fetched = 0;
  for (const auto& place : places_) {
    if (auto shared = place.shared ? place.shared->lock() : nullptr) {
      storages.emplace_back(std::move(shared));
      continue;
    }
    const EngineOpsGuard guard;
    storages.push_back(
        at::empty({static_cast<int64_t>(place.bytes)}, at::TensorOptions(device_).dtype(at::kByte))
            .storage());
    add_copies(copies, place, storages.back(), /*is_out=*/false);
    fetched += place.bytes;
  }
  stream_ = current_stream(device_);
  if (!copies.empty()) {
    arrival_ = begin(copies);
  }
  has_waited_ = false;
  storages_ = std::move(storages);
  if (counts_stats()) {
    RegionStats delta;
    delta.bytes_brought_back = fetched;
    count(name_, delta);
  }
}

c10::Storage Parcel::take(size_t item) {
  const std::scoped_lock lock(mutex_);
  start_back_locked();
  const auto stream = current_stream(device_);
  if (!(stream == stream_)) {
    // Fetched for another stream than the one that uses it: the allocator has to know.
    arrival_->wait(stream);
    c10::impl::VirtualGuardImpl(device_.type())
        .recordDataPtrOnStream(storages_[item].data_ptr(), stream);
  } else if (!std::exchange(has_waited_, true)) {
    arrival_->wait(stream);
  }
  return storages_[item];
}

void Parcel::release() noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    release_locked();
  } catch (...) {
    storages_.clear();  // the device is gone, and its memory with it
  }
}

void Parcel::release_locked() {
  has_left_ = true;
  if (!storages_.empty()) {
    // Whatever gets this memory next is computed on that stream.
    arrival_->wait(stream_);
    storages_.clear();
  }
}

void Parcel::leave() {
  const std::scoped_lock lock(mutex_);
  if (!has_left_ && counts_stats()) {
    RegionStats delta;
    for (const auto& storage : storages_) {
      delta.bytes_not_moved += storage.use_count() > 1 ? storage.nbytes() : 0;
    }
    count(name_, delta);
  }
  release_locked();
}

std::shared_ptr<Parcel> send(std::vector<Parcel::Item> items, const std::string& name) {
  auto parcel = std::make_shared<Parcel>(depot(), std::move(items), name);
  if (const auto previous = last_sent.lock()) {
    previous->leave();
    parcel->previous_ = previous;
  }
  last_sent = parcel;
  return parcel;
}

std::vector<std::shared_ptr<Parcel>> parcels_ahead_of(const Parcel& parcel) {
  std::vector<std::shared_ptr<Parcel>> parcels;
  auto previous = parcel.previous_.lock();
  for (size_t left = parcel.depot_->settings().prefetch; left > 0 && previous; --left) {
    parcels.push_back(previous);
    previous = previous->previous_.lock();
  }
  return parcels;
}

}  // namespace reprise::detail
