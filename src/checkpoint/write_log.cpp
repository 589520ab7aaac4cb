#include "checkpoint/write_log.h"

#include "checkpoint/engine_ops.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/set.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

/// All bytes of a storage as a tensor with a version counter of its own.
at::Tensor bytes_of(const c10::Storage& storage) {
  auto bytes = at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte));
  bytes.set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
  return bytes;
}

/// Owners of a tensor that nobody but an operator's caller holds, as seen while the operator is announced:
/// the caller, the operator's stack, and the list of announced targets.
constexpr size_t kOwnersOfFresh = 3;

/// Nobody but the operator's caller holds it and nothing was ever written to it: made a moment ago to be
/// filled, as factories and dropout do. The content it has is no content.
bool is_fresh(const at::Tensor& tensor) {
  return tensor._version() == 0 && tensor.use_count() <= kOwnersOfFresh && tensor.storage().use_count() == 1;
}

}  // namespace

void WriteLog::record(const at::Tensor& target, bool overwrites) {
  // A tensor with history is an activation: version counters speak for it.
  if (!target.is_leaf()) {
    return;
  }
  const c10::Storage& storage = target.storage();
  auto* impl = storage.unsafeGetStorageImpl();
  const bool is_known = std::any_of(entries_.begin(), entries_.end(), [impl](const Entry& entry) {
    return entry.storage._unsafe_get_target() == impl;
  });
  if (is_known) {
    return;
  }
  const EngineOpsGuard guard;
  Entry entry{c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()),
              target.unsafeGetTensorImpl()->version_counter(),
              static_cast<uint32_t>(target._version()),
              {}};
  if (!(overwrites && is_fresh(target))) {
    entry.before = bytes_of(storage).clone();
  }
  entries_.push_back(std::move(entry));
}

void WriteLog::prune() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.storage.expired(); });
}

bool WriteLog::has(const c10::StorageImpl* storage) const {
  return std::any_of(entries_.begin(), entries_.end(), [storage](const Entry& entry) {
    return entry.storage._unsafe_get_target() == storage && entry.before.defined();
  });
}

WriteUndo::WriteUndo(const WriteLog& log) : log_(log) {
  for (const auto& entry : log_.entries_) {
    auto storage = entry.storage.lock();
    if (!storage || !entry.before.defined()) {
      continue;
    }
    save(entry, c10::Storage(std::move(storage)));
    const EngineOpsGuard guard;
    bytes_of(saved_.back().storage).copy_(entry.before);
    saved_.back().version_counter.set_version(entry.version);
  }
}

void WriteUndo::save(const WriteLog::Entry& entry, c10::Storage storage) {
  const EngineOpsGuard guard;
  auto bytes = bytes_of(storage).clone();
  saved_.push_back({std::move(storage),
                    entry.version_counter,
                    entry.version_counter.current_version(),
                    std::move(bytes)});
}

void WriteUndo::before_write(const at::Tensor& target) {
  auto* impl = target.storage().unsafeGetStorageImpl();
  for (const auto& entry : log_.entries_) {
    if (entry.storage._unsafe_get_target() != impl || entry.before.defined()) {
      continue;
    }
    const bool is_saved = std::any_of(saved_.begin(), saved_.end(), [impl](const Saved& saved) {
      return saved.storage.unsafeGetStorageImpl() == impl;
    });
    if (!is_saved) {
      save(entry, target.storage());
    }
  }
}

WriteUndo::~WriteUndo() {
  const EngineOpsGuard guard;
  for (auto& saved : saved_) {
    bytes_of(saved.storage).copy_(saved.bytes);
    saved.version_counter.set_version(saved.version);
  }
}

}  // namespace reprise::detail
