#include "checkpoint/state/data_writes.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

/// What data() has handed out for one storage.
struct HandedOut {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  uint64_t past = 0;  // writes through tensors that are gone
  std::vector<c10::VariableVersion> counters = {};

  void forget_unused() {
    std::erase_if(counters, [this](const c10::VariableVersion& counter) {
      if (!counter.unique()) {
        return false;
      }
      past += counter.current_version();
      return true;
    });
  }
};

class DataRegistry {
 public:
  void add(const at::Tensor& tensor, const at::Tensor& data) {
    const std::scoped_lock lock(mutex_);
    if (storages_.size() >= prune_at_) {
      std::erase_if(storages_, [](const auto& entry) { return entry.second.storage.expired(); });
      prune_at_ = 2 * storages_.size() + kPruneAt;
    }
    const auto* key = data.storage().unsafeGetStorageImpl();
    auto found = storages_.find(key);
    if (found == storages_.end()) {
      found = storages_
                  .emplace(key,
                           HandedOut{c10::weak_intrusive_ptr<c10::StorageImpl>(
                               data.storage().getWeakStorageImpl())})
                  .first;
      // Somebody may read through data() what is written without it.
      const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
      found->second.counters.push_back(counter);
      found->second.past -= counter.current_version();  // what was before does not count
    }
    found->second.forget_unused();
    found->second.counters.push_back(data.unsafeGetTensorImpl()->version_counter());
    is_used_.store(true, std::memory_order_release);
  }

  uint64_t writes(const c10::StorageImpl* storage) {
    if (!is_used_.load(std::memory_order_acquire)) {
      return 0;
    }
    const std::scoped_lock lock(mutex_);
    const auto found = storages_.find(storage);
    if (found == storages_.end()) {
      return 0;
    }
    uint64_t total = found->second.past;
    for (const auto& counter : found->second.counters) {
      total += counter.current_version();
    }
    return total;
  }

 private:
  static constexpr size_t kPruneAt = 1024;
  std::mutex mutex_;
  std::atomic<bool> is_used_{false};
  size_t prune_at_ = kPruneAt;
  // The weak reference keeps an address from being reused.
  std::unordered_map<const c10::StorageImpl*, HandedOut> storages_;
};

DataRegistry& data_registry() {
  static auto* registry = new DataRegistry();  // allow: owning-new (tensors outlive statics)
  return *registry;
}

}  // namespace

void note_data(const at::Tensor& tensor, const at::Tensor& data) {
  if (data.has_storage() && data.unsafeGetTensorImpl()->version_counter().enabled() &&
      tensor.unsafeGetTensorImpl()->version_counter().enabled()) {
    data_registry().add(tensor, data);
  }
}

uint64_t data_writes(const c10::StorageImpl* storage) {
  return storage == nullptr ? 0 : data_registry().writes(storage);
}

}  // namespace reprise::detail
