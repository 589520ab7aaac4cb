#include "plan/trace/storage_ledger.h"

namespace reprise::planning {

std::optional<size_t> StorageLedger::find(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) {
    return std::nullopt;
  }
  const auto found = numbers_.find(tensor.storage().unsafeGetStorageImpl());
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

size_t StorageLedger::add(const at::Tensor& tensor) {
  const size_t number = storages_.size();
  storages_.push_back(tensor.storage().getWeakStorageImpl());
  living_.push_back(number);
  numbers_.emplace(tensor.storage().unsafeGetStorageImpl(), number);
  return number;
}

void StorageLedger::collect_dead(const std::function<void(size_t)>& visit) {
  std::erase_if(living_, [&](size_t number) {
    const bool is_dead = storages_[number].expired();
    if (is_dead) {
      visit(number);
    }
    return is_dead;
  });
}

}  // namespace reprise::planning
