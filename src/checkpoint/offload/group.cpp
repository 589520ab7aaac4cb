#include "checkpoint/offload/group.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/storage_bytes.h"
#include "checkpoint/stats.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

thread_local std::weak_ptr<OffloadGroup> last_group;

}  // namespace

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

OffloadGroup::OffloadGroup(std::shared_ptr<HostPool> pool,
                           std::vector<Item> items,
                           std::string name)
    : pool_(std::move(pool)),
      device_(items.front().storage.device()),
      name_(std::move(name)),
      stream_(current_stream(device_)) {
  size_t end = 0;
  for (auto& item : items) {
    const size_t size = item.storage.nbytes();
    ranges_.push_back({.bytes = size, .offset = end});
    if (item.is_shared) {
      ranges_.back().shared.emplace(item.storage.getWeakStorageImpl());
    }
    bytes_ += size;
    end += space_in_pages(size);
    storages_.push_back(std::move(item.storage));
  }
  pages_ = pool_->take(device_, end);
  try {
    std::vector<ByteCopy> copies;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      add_copies(copies, ranges_[i], storages_[i], /*to_host=*/true);
    }
    copy_event_ = begin(copies);
  } catch (...) {
    pool_->give_back(device_, std::move(pages_));
    throw;
  }
}

OffloadGroup::~OffloadGroup() {
  release();
  pool_->give_back(device_, std::move(pages_));
}

void OffloadGroup::add_copies(std::vector<ByteCopy>& copies,
                              const HostRange& range,
                              const c10::Storage& storage,
                              bool to_host) const {
  const EngineOpsGuard guard;
  const auto on_device = bytes_of(storage);
  const size_t page_bytes = pool_->backend->page_bytes();
  for (size_t done = 0; done < range.bytes;) {
    const size_t at = range.offset + done;
    const size_t in_page = at % page_bytes;
    const size_t size = std::min(range.bytes - done, page_bytes - in_page);
    const auto slice = [size](const at::Tensor& bytes, size_t start) {
      return bytes.narrow(0, static_cast<int64_t>(start), static_cast<int64_t>(size));
    };
    auto host = slice(pages_[at / page_bytes], in_page);
    auto device = slice(on_device, done);
    copies.push_back(to_host ? ByteCopy{std::move(host), std::move(device)}
                             : ByteCopy{std::move(device), std::move(host)});
    done += size;
  }
}

std::unique_ptr<CopyEvent> OffloadGroup::begin(const std::vector<ByteCopy>& copies) const {
  const EngineOpsGuard guard;
  return pool_->backend->begin(device_, copies);
}

void OffloadGroup::start_fetch() {
  const std::scoped_lock lock(mutex_);
  start_fetch_locked();
}

void OffloadGroup::start_fetch_locked() {
  if (!storages_.empty()) {
    return;
  }
  std::vector<c10::Storage> storages;
  std::vector<ByteCopy> copies;
  size_t fetched = 0;
  for (const auto& range : ranges_) {
    if (auto shared = range.shared ? range.shared->lock() : nullptr) {
      storages.emplace_back(std::move(shared));
      continue;
    }
    const EngineOpsGuard guard;
    storages.push_back(
        at::empty({static_cast<int64_t>(range.bytes)}, at::TensorOptions(device_).dtype(at::kByte))
            .storage());
    add_copies(copies, range, storages.back(), /*to_host=*/false);
    fetched += range.bytes;
  }
  stream_ = current_stream(device_);
  if (!copies.empty()) {
    copy_event_ = begin(copies);
  }
  has_waited_ = false;
  storages_ = std::move(storages);
  if (counts_stats()) {
    RegionStats delta;
    delta.bytes_fetched = fetched;
    count(name_, delta);
  }
}

c10::Storage OffloadGroup::take(size_t item) {
  const std::scoped_lock lock(mutex_);
  start_fetch_locked();
  const auto stream = current_stream(device_);
  if (!(stream == stream_)) {
    // Fetched on another stream than the one that uses it, which the allocator has to know.
    copy_event_->wait(stream);
    c10::impl::VirtualGuardImpl(device_.type())
        .recordDataPtrOnStream(storages_[item].data_ptr(), stream);
  } else if (!std::exchange(has_waited_, true)) {
    copy_event_->wait(stream);
  }
  return storages_[item];
}

void OffloadGroup::release() noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    release_locked();
  } catch (...) {
    storages_.clear();  // the device has failed, and its memory is gone with it
  }
}

void OffloadGroup::release_locked() {
  has_left_device_ = true;
  if (!storages_.empty()) {
    // The allocator reuses this memory on that stream.
    copy_event_->wait(stream_);
    storages_.clear();
  }
}

void OffloadGroup::finish_offload() {
  const std::scoped_lock lock(mutex_);
  if (!has_left_device_ && counts_stats()) {
    RegionStats delta;
    for (const auto& storage : storages_) {
      delta.bytes_not_moved += storage.use_count() > 1 ? storage.nbytes() : 0;
    }
    count(name_, delta);
  }
  release_locked();
}

std::shared_ptr<OffloadGroup> start_offload(std::vector<OffloadGroup::Item> items,
                                            const std::string& name) {
  auto group = std::make_shared<OffloadGroup>(host_pool(), std::move(items), name);
  if (const auto previous = last_group.lock()) {
    previous->finish_offload();
    group->previous_ = previous;
  }
  last_group = group;
  return group;
}

std::vector<std::shared_ptr<OffloadGroup>> groups_to_prefetch(const OffloadGroup& group) {
  std::vector<std::shared_ptr<OffloadGroup>> groups;
  auto previous = group.previous_.lock();
  for (size_t left = group.pool_->settings().prefetch; left > 0 && previous; --left) {
    groups.push_back(previous);
    previous = previous->previous_.lock();
  }
  return groups;
}

}  // namespace reprise::detail
