#include "checkpoint/state/write_log.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/storage_bytes.h"
#include "checkpoint/state/version_counter.h"
#include "checkpoint/torch_versions.h"

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

size_t bytes_in(const at::Tensor& bytes) {
  return static_cast<size_t>(bytes.numel());
}

/// What made the tensor or the base that it is a view of; null for a leaf, and a view of a leaf.
NodePtr history_of(const at::Tensor& tensor) {
  return tensor.is_leaf() ? NodePtr() : (tensor.is_view() ? tensor._base() : tensor).grad_fn();
}

/// Whether the program owns the memory: no allocator can resize it.
bool is_wrapped(const c10::StorageImpl& storage) {
  return storage.allocator() == nullptr;
}

}  // namespace

WriteLog::Memory WriteLog::memory_of(const c10::StorageImpl& storage) {
  const auto* begin = static_cast<const char*>(storage.data());
  return {begin, begin + storage.nbytes()};
}

bool WriteLog::has_wrapped_again(const c10::StorageImpl& storage) const {
  if (!is_wrapped(storage) || !unusual_) {
    return false;
  }
  const auto memory = memory_of(storage);
  return !has_entry(&storage) &&
         std::any_of(unusual_->wrapped.begin(), unusual_->wrapped.end(), [&](const Memory& known) {
           return known.begin < memory.end && memory.begin < known.end;
         });
}

WriteLog::Unusual& WriteLog::unusual() {
  if (!unusual_) {
    unusual_ = std::make_unique<Unusual>();
  }
  return *unusual_;
}

void WriteLog::record(const at::Tensor& target) {
  if (!target.has_storage()) {
    unusual().without_storage.emplace_back(target.getIntrusivePtr());
    count_.add(target);
    return;
  }
  const auto history = history_of(target);
  if (history && !start_.is_older(*history)) {
    return;  // an activation of the region
  }
  has_foreign_history_ = has_foreign_history_ || (history && at::GradMode::is_enabled());
  const c10::Storage& storage = target.storage();
  auto* impl = storage.unsafeGetStorageImpl();
  if (!is_below_autograd()) {
    count_.add(target);
  }
  if (has_entry(impl)) {
    return;
  }
  prune();  // frees the snapshots of temporaries that are gone
  const EngineOpsGuard guard;
  const auto& counter = target.unsafeGetTensorImpl()->version_counter();
  Entry entry{WeakStorage(storage.getWeakStorageImpl()),
              counter,
              current_version(counter),
              {},
              was_made_since(made_before_, impl)};
  if (is_wrapped(*impl)) {
    unusual().wrapped.push_back(memory_of(*impl));
  }
  if (!was_just_made(impl)) {
    entry.before = bytes_of(storage).clone();
  }
  entries_.push_back(std::move(entry));
}

void WriteLog::record_kernel_write(const at::Tensor& target) {
  constexpr size_t kPruneAt = 64;
  if (!target.has_storage()) {
    return;
  }
  const c10::Storage& storage = target.storage();
  auto* impl = storage.unsafeGetStorageImpl();
  const bool is_known =
      was_just_made(impl) ||
      (!kernel_written_.empty() && kernel_written_.back()._unsafe_get_target() == impl);
  if (is_known) {
    return;
  }
  if (kernel_written_.size() % kPruneAt == kPruneAt - 1) {
    std::erase_if(kernel_written_, [](const WeakStorage& one) { return one.expired(); });
  }
  kernel_written_.emplace_back(storage.getWeakStorageImpl());
}

void WriteLog::prune() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.storage.expired(); });
  std::erase_if(kernel_written_, [](const WeakStorage& one) { return one.expired(); });
  if (unusual_) {
    std::erase_if(unusual_->without_storage, [](const auto& tensor) { return tensor.expired(); });
  }
}

void WriteLog::finish(const std::function<bool(const c10::StorageImpl*)>& is_kept) {
  prune();
  std::erase_if(entries_, [&is_kept](const Entry& entry) {
    return is_kept(entry.storage._unsafe_get_target());
  });
}

bool WriteLog::has_entry(const c10::StorageImpl* storage) const {
  return std::any_of(entries_.begin(), entries_.end(), [storage](const Entry& entry) {
    return entry.storage._unsafe_get_target() == storage;
  });
}

bool WriteLog::has_any_write(const c10::StorageImpl* storage) const {
  return has_entry(storage) ||
         std::any_of(kernel_written_.begin(), kernel_written_.end(), [&](const WeakStorage& one) {
           return one._unsafe_get_target() == storage;
         });
}

at::Tensor WriteLog::content_of(const c10::StorageImpl* storage) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [storage](const Entry& entry) {
    return entry.storage._unsafe_get_target() == storage;
  });
  return found == entries_.end() ? at::Tensor() : found->before;
}

WriteUndo::WriteUndo(const WriteLog& log) : log_(log), remaining_(log.count_) {
  std::vector<const WriteLog::Entry*> rewound;
  for (const auto& entry : log_.entries_) {
    auto storage = entry.storage.lock();
    // A storage of another size belongs to the region, or before_write refuses it.
    if (!storage || !entry.before.defined() || storage->nbytes() != bytes_in(entry.before)) {
      continue;
    }
    // What forward made and the program keeps, a table for example, need not be made again. It is
    // rewound when the recompute writes it.
    if (entry.is_made_inside) {
      continue;
    }
    rewound.push_back(&entry);
    save(entry, c10::Storage(std::move(storage)));
  }
  // Everything is saved before anything is modified; if that fails, the modifications are undone.
  try {
    const EngineOpsGuard guard;
    // The last first: two storages may share their memory, and the first has the older content.
    for (size_t i = rewound.size(); i-- > 0;) {
      rewind(*rewound[i], saved_[i]);
    }
  } catch (...) {
    put_back();
    throw;
  }
}

void WriteUndo::rewind(const WriteLog::Entry& entry, Saved& saved) {
  bytes_of(saved.storage).copy_(entry.before);
  set_version(saved.version_counter, entry.version);
}

void WriteUndo::save(const WriteLog::Entry& entry, c10::Storage storage) {
  const EngineOpsGuard guard;
  auto bytes = bytes_of(storage).clone();
  saved_.push_back({std::move(storage),
                    entry.version_counter,
                    current_version(entry.version_counter),
                    std::move(bytes)});
}

bool WriteUndo::was_in_forward(const at::Tensor& target) {
  if (is_below_autograd()) {
    return true;
  }
  if (target.has_storage()) {
    const auto history = history_of(target);
    if ((history && !start_.is_older(*history)) ||
        was_made_since(made_before_, target.storage().unsafeGetStorageImpl())) {
      return true;  // it is the recompute's own
    }
  }
  return remaining_.take(target);
}

const char* WriteUndo::before_write(const at::Tensor& target) {
  if (!target.has_storage()) {
    const auto* impl = target.unsafeGetTensorImpl();
    const auto is_it = [impl](const auto& one) { return one._unsafe_get_target() == impl; };
    const auto* unusual = log_.unusual_.get();
    return unusual != nullptr &&
                   std::any_of(
                       unusual->without_storage.begin(), unusual->without_storage.end(), is_it)
               ? "changed a captured sparse tensor in place, which cannot be undone for its "
                 "recompute. Change it outside of the region."
               : nullptr;
  }
  auto* impl = target.storage().unsafeGetStorageImpl();
  if (log_.has_wrapped_again(*impl)) {
    return "wraps memory of the program as a tensor (from_blob) and writes it: a recompute would "
           "write it again. Wrap it outside of the region.";
  }
  if (const char* why_not = before_kernel_write(target)) {
    return why_not;
  }
  for (const auto& entry : log_.entries_) {
    if (entry.storage._unsafe_get_target() != impl) {
      continue;
    }
    if (entry.before.defined()) {
      if (impl->nbytes() != bytes_in(entry.before)) {
        return "resized a captured tensor, which cannot be undone for its recompute. Give the "
               "tensor its size before the region.";
      }
      if (!entry.is_made_inside) {
        continue;
      }
    }
    const bool is_saved = std::any_of(saved_.begin(), saved_.end(), [impl](const Saved& saved) {
      return saved.storage.unsafeGetStorageImpl() == impl;
    });
    if (!is_saved) {
      save(entry, target.storage());
      if (entry.before.defined()) {
        const EngineOpsGuard guard;
        rewind(entry, saved_.back());
      }
    }
  }
  return nullptr;
}

const char* WriteUndo::before_kernel_write(const at::Tensor& target) const {
  if (!target.has_storage()) {
    return nullptr;
  }
  const auto* impl = target.storage().unsafeGetStorageImpl();
  const auto& known = log_.kernel_written_;
  const bool is_from_outside = std::any_of(known.begin(), known.end(), [impl](const auto& one) {
    return one._unsafe_get_target() == impl;
  });
  return is_from_outside && !log_.has(impl)
             ? "changed a captured tensor below autograd (under an "
               "AutoDispatchBelowADInplaceOrView "
               "guard, or in a kernel that does not declare it), so its recompute would change it "
               "again. Change it without the guard, or outside of the region."
             : nullptr;
}

void WriteUndo::put_back() {
  const EngineOpsGuard guard;
  for (auto& saved : std::exchange(saved_, {})) {
    bytes_of(saved.storage).copy_(saved.bytes);
    set_version(saved.version_counter, saved.version);
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
