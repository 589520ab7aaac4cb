// Numbers the storages that a traced step makes. They are told apart by weak references: an address
// is reused as soon as a storage dies, but not while a weak reference exists, and that keeps no
// bytes alive.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace reprise::planning {

class StorageLedger {
 public:
  /// The number of the tensor's storage; std::nullopt if it was not added.
  std::optional<size_t> find(const at::Tensor& tensor) const;
  /// Storages are numbered in the order in which they are added.
  size_t add(const at::Tensor& tensor);
  bool is_alive(size_t number) const { return !storages_[number].expired(); }
  /// The number of tensors that share the storage.
  size_t holders(size_t number) const { return storages_[number].use_count(); }
  /// Calls `visit(number)` for each storage that has died since the last call.
  void collect_dead(const std::function<void(size_t)>& visit);

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<size_t> living_;
  ska::flat_hash_map<const c10::StorageImpl*, size_t> numbers_;
};

}  // namespace reprise::planning
