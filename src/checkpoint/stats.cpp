#include "checkpoint/stats.h"

#include <c10/util/Exception.h>

#include <map>
#include <mutex>

namespace reprise {
namespace detail {

std::atomic<bool> stats_enabled{false};

namespace {

struct Counted {
  std::mutex mutex;
  CheckpointStats stats;
  /// Weak references keep no bytes alive, but keep the addresses from being reused.
  std::map<const void*, c10::weak_intrusive_ptr<c10::StorageImpl>> held;
  bool was_enabled = false;
};

Counted& counted() {
  static Counted instance;
  return instance;
}

void add(RegionStats& to, const RegionStats& delta) {
  to.entered += delta.entered;
  to.recomputed += delta.recomputed;
  to.early_stopped += delta.early_stopped;
  to.ops_replayed += delta.ops_replayed;
  to.ops_recomputed += delta.ops_recomputed;
  to.tensors_dropped += delta.tensors_dropped;
  to.bytes_dropped += delta.bytes_dropped;
  to.bytes_kept += delta.bytes_kept;
  to.bytes_unsaved += delta.bytes_unsaved;
  to.bytes_offloaded += delta.bytes_offloaded;
  to.bytes_fetched += delta.bytes_fetched;
  to.bytes_compressed += delta.bytes_compressed;
  to.bytes_compressed_to += delta.bytes_compressed_to;
  to.bytes_not_moved += delta.bytes_not_moved;
  to.recompute_time += delta.recompute_time;
}

}  // namespace

bool is_first_holder(const c10::Storage& storage) {
  auto& all = counted();
  const std::scoped_lock lock(all.mutex);
  return all.held.emplace(storage.unsafeGetStorageImpl(), storage.getWeakStorageImpl()).second;
}

void count(const std::string& region, const RegionStats& delta) {
  auto& all = counted();
  const std::scoped_lock lock(all.mutex);
  add(all.stats.total, delta);
  add(all.stats.regions[region], delta);
}

}  // namespace detail

void record_checkpoint_stats(bool enabled) {
  auto& all = detail::counted();
  const std::scoped_lock lock(all.mutex);
  all.was_enabled = all.was_enabled || enabled;
  detail::stats_enabled.store(enabled, std::memory_order_relaxed);
}

CheckpointStats checkpoint_stats() {
  auto& all = detail::counted();
  const std::scoped_lock lock(all.mutex);
  TORCH_CHECK(
      all.was_enabled,
      "[reprise] nothing was counted: call reprise::record_checkpoint_stats(true) before the "
      "regions run.");
  return all.stats;
}

void reset_checkpoint_stats() {
  auto& all = detail::counted();
  const std::scoped_lock lock(all.mutex);
  all.stats = {};
  all.held.clear();
}

}  // namespace reprise
