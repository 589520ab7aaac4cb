#include "checkpoint/state/write_log.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/storage_bytes.h"

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

size_t bytes_in(const at::Tensor& bytes) {
  return static_cast<size_t>(bytes.numel());
}

}  // namespace

void WriteLog::record(const at::Tensor& target) {
  if (!target.is_leaf()) {
    const auto history = (target.is_view() ? target._base() : target).grad_fn();
    if (history && !start_.is_older(*history)) {
      return;  // an activation of the region
    }
    // A non-leaf without history is a view of a leaf.
    if (history && at::GradMode::is_enabled()) {
      has_foreign_history_ = true;
      return;
    }
  }
  const c10::Storage& storage = target.storage();
  auto* impl = storage.unsafeGetStorageImpl();
  const bool is_known = std::any_of(entries_.begin(), entries_.end(), [impl](const Entry& entry) {
    return entry.storage._unsafe_get_target() == impl;
  });
  if (is_known) {
    return;
  }
  prune();  // frees the snapshots of temporaries that are gone
  const EngineOpsGuard guard;
  Entry entry{c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()),
              target.unsafeGetTensorImpl()->version_counter(),
              static_cast<uint32_t>(target._version()),
              {}};
  if (!was_just_made(impl)) {
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
  std::vector<const WriteLog::Entry*> rewound;
  for (const auto& entry : log_.entries_) {
    auto storage = entry.storage.lock();
    // A storage of another size belongs to the region, or before_write refuses it.
    if (!storage || !entry.before.defined() || storage->nbytes() != bytes_in(entry.before)) {
      continue;
    }
    rewound.push_back(&entry);
    save(entry, c10::Storage(std::move(storage)));
  }
  // Everything is saved before anything is modified; if that fails, the modifications are undone.
  try {
    const EngineOpsGuard guard;
    for (size_t i = 0; i < rewound.size(); ++i) {
      bytes_of(saved_[i].storage).copy_(rewound[i]->before);
      saved_[i].version_counter.set_version(rewound[i]->version);
    }
  } catch (...) {
    put_back();
    throw;
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

const char* WriteUndo::before_write(const at::Tensor& target) {
  auto* impl = target.storage().unsafeGetStorageImpl();
  for (const auto& entry : log_.entries_) {
    if (entry.storage._unsafe_get_target() != impl) {
      continue;
    }
    // The region's own tensors have new storages in the recompute, so this one is from outside.
    if (!target.is_leaf() && at::GradMode::is_enabled()) {
      return "changed a captured tensor in place and so gave it a history (a grad_fn); running the "
             "region again would give it a second one. Pass the tensor as an argument and return "
             "the new value, or write detached values.";
    }
    if (entry.before.defined()) {
      if (impl->nbytes() != bytes_in(entry.before)) {
        return "resized a captured tensor, which cannot be undone for its recompute. Give the "
               "tensor its size before the region.";
      }
      continue;
    }
    const bool is_saved = std::any_of(saved_.begin(), saved_.end(), [impl](const Saved& saved) {
      return saved.storage.unsafeGetStorageImpl() == impl;
    });
    if (!is_saved) {
      save(entry, target.storage());
    }
  }
  return nullptr;
}

void WriteUndo::put_back() {
  const EngineOpsGuard guard;
  for (auto& saved : std::exchange(saved_, {})) {
    bytes_of(saved.storage).copy_(saved.bytes);
    saved.version_counter.set_version(saved.version);
  }
}

WriteUndo::~WriteUndo() {
  try {
    put_back();
  } catch (...) {
    // Another exception is being thrown already and tells why the device failed.
  }
}

}  // namespace reprise::detail
