#include "checkpoint/state/read_log.h"

#include "checkpoint/state/content_sample.h"
#include "checkpoint/state/data_writes.h"
#include "checkpoint/state/version_counter.h"

#include <reprise/options.h>

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

/// So many entries are searched one by one.
constexpr size_t kFew = 8;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::string described(const at::Tensor& tensor) {
  return c10::str(tensor.toString(), " ", tensor.is_nested() ? c10::IntArrayRef() : tensor.sizes());
}

}  // namespace

const ReadLog::Entry* ReadLog::find(const at::Tensor& tensor) const {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto* storage = storage_of(tensor);
  if (entries_.size() <= kFew) {
    for (const auto& entry : entries_) {
      if (entry.tensor._unsafe_get_target() == impl ||
          (storage != nullptr && entry.storage._unsafe_get_target() == storage)) {
        return &entry;
      }
    }
    return nullptr;
  }
  auto found = index_.find(impl);
  if (found == index_.end() && storage != nullptr) {
    found = index_.find(storage);
  }
  return found == index_.end() ? nullptr : &entries_[found->second];
}

void ReadLog::note_name(const at::Tensor& tensor, size_t entry) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto* meta = autograd_meta_of(tensor);
  if (entries_[entry].tensor._unsafe_get_target() == impl || meta == nullptr ||
      (!meta->grad_fn_ && !meta->requires_grad_)) {
    return;
  }
  if (!other_names_) {
    other_names_ = std::make_unique<std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>>();
  }
  const bool is_known =
      index_.empty()
          ? std::any_of(other_names_->begin(),
                        other_names_->end(),
                        [impl](const auto& name) { return name._unsafe_get_target() == impl; })
          : !index_.emplace(impl, entry).second;
  if (is_known) {
    return;
  }
  // Most are gone at once: results that share the memory of what they were computed from.
  constexpr size_t kDropAt = 64;
  if (other_names_->size() % kDropAt == kDropAt - 1) {
    drop_dead_names();
  }
  other_names_->emplace_back(tensor.getIntrusivePtr());
}

void ReadLog::drop_dead_names() {
  if (!other_names_) {
    return;
  }
  std::erase_if(*other_names_, [this](const auto& name) {
    if (name.expired()) {
      index_.erase(name._unsafe_get_target());
    }
    return name.expired();
  });
}

void ReadLog::note(const at::Tensor& tensor) {
  if (const auto* entry = find(tensor)) {
    note_name(tensor, static_cast<size_t>(entry - entries_.data()));
    return;
  }
  const auto* storage = storage_of(tensor);
  entries_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                      storage == nullptr ? c10::weak_intrusive_ptr<c10::StorageImpl>(
                                               c10::intrusive_ptr<c10::StorageImpl>())
                                         : tensor.storage().getWeakStorageImpl(),
                      tensor.unsafeGetTensorImpl()->version_counter(),
                      current_version(tensor),
                      tensor.requires_grad(),
                      data_writes(storage),
                      storage == nullptr ? 0 : content_sample(*storage)});
  if (entries_.size() <= kFew) {
    return;
  }
  const size_t first = entries_.size() == kFew + 1 ? 0 : entries_.size() - 1;
  for (size_t i = first; i < entries_.size(); ++i) {
    index_.emplace(entries_[i].tensor._unsafe_get_target(), i);
    if (const auto* held = entries_[i].storage._unsafe_get_target(); held != nullptr) {
      index_.emplace(held, i);
    }
  }
}

void ReadLog::finish(const std::function<bool(const c10::StorageImpl*)>& is_kept,
                     const std::function<bool(const c10::StorageImpl*)>& is_input) {
  drop_dead_names();
  std::erase_if(entries_, [&is_kept](const Entry& entry) {
    return (entry.tensor.expired() && entry.storage.expired()) ||
           is_kept(entry.storage._unsafe_get_target());
  });
  for (auto& entry : entries_) {
    entry.is_input = is_input(entry.storage._unsafe_get_target());
  }
  index_.clear();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto& entry = entries_[i];
    if (entries_.size() > kFew) {
      index_.emplace(entry.tensor._unsafe_get_target(), i);
      if (const auto* held = entry.storage._unsafe_get_target(); held != nullptr) {
        index_.emplace(held, i);
      }
    }
  }
}

namespace {

/// Compares addresses only: other threads may be setting gradients.
#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("thread")))
#endif
bool is_gradient_of(const c10::TensorImpl& leaf, const at::Tensor& tensor) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(leaf.autograd_meta());
  return meta != nullptr && meta->grad_.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl();
}

}  // namespace

bool ReadLog::knows(const at::Tensor& tensor) const {
  return find(tensor) != nullptr ||
         std::any_of(entries_.begin(), entries_.end(), [&tensor](const Entry& entry) {
           const auto leaf = entry.tensor.lock();
           return leaf && is_gradient_of(*leaf, tensor);
         });
}

void ReadCheck::check(const at::Tensor& tensor) {
  const auto* entry = log_.find(tensor);
  if (entry == nullptr) {
    if (new_parameter_.empty() && tensor.is_leaf() && tensor.requires_grad()) {
      new_parameter_ = described(tensor);
    }
    return;
  }
  // Only the first read counts: afterwards the region itself may have written the tensor.
  const auto index = static_cast<size_t>(entry - log_.entries_.data());
  if (is_checked_[index] || std::ranges::count(set_, tensor.unsafeGetTensorImpl()) > 0) {
    return;
  }
  is_checked_[index] = true;
  const auto* storage = storage_of(tensor);
  if (storage != nullptr && writes_.has(storage)) {
    return;
  }
  const bool is_same_tensor = entry->tensor._unsafe_get_target() == tensor.unsafeGetTensorImpl();
  if (entry->is_input) {
    // An input that the function has captured, too: has it got other data?
    const bool has_other = is_same_tensor && entry->storage._unsafe_get_target() != storage;
    difference_ = has_other ? "a tensor that it reads was given other data (set_data) since forward"
                            : std::move(difference_);
    return;
  }
  const auto text = [&tensor] {
    return c10::str("a tensor that it reads (", described(tensor), ") ");
  };
  // The counter that forward saw: another tensor of the same storage may have another one.
  if (entry->version != current_version(entry->version_counter) ||
      entry->storage._unsafe_get_target() != storage ||
      entry->data_writes != data_writes(storage) ||
      (storage != nullptr && entry->sample != content_sample(*storage))) {
    difference_ =
        text() + "was changed: it has been modified by an inplace operation since forward";
  } else if (is_same_tensor && entry->requires_grad != tensor.requires_grad()) {
    difference_ = text() + "was changed: its requires_grad is not what it was in forward";
  }
}

void ReadCheck::check_input(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  if (const auto* why = inputs_.why_unreadable(tensor.storage().unsafeGetStorageImpl())) {
    unread_input_ = *why;
    throw CheckpointError(*why);
  }
}

REPRISE_HOT_THREAD_LOCAL ReadGuard* ReadGuard::innermost = nullptr;

ReadGuard::ReadGuard(ReadLog* log)
    : log_(log),
      outer_(std::exchange(innermost, log == nullptr ? nullptr : this)),
      is_watching_((log != nullptr && log->inputs.is_open()) ||
                   (outer_ != nullptr && outer_->is_watching_)) {}

ReadGuard::ReadGuard(ReadCheck* check)
    : check_(check), outer_(std::exchange(innermost, this)), is_watching_(check->is_watching()) {}

ReadGuard::~ReadGuard() {
  innermost = outer_;
}

void ReadGuard::note_input(const at::Tensor& tensor) {
  bool is_watching = false;
  for (auto* guard = innermost; guard != nullptr; guard = guard->outer_) {
    if (guard->check_ != nullptr) {
      guard->check_->check_input(tensor);
      is_watching = is_watching || guard->check_->is_watching();
      break;
    }
    if (guard->log_->inputs.is_open()) {
      guard->log_->inputs.read(tensor);
      is_watching = true;
    }
  }
  if (innermost != nullptr) {
    innermost->is_watching_ = is_watching;
  }
}

void ReadGuard::note_hidden_reads() {
  for (auto* guard = innermost; guard != nullptr && guard->log_ != nullptr; guard = guard->outer_) {
    guard->log_->inputs.hold_all();
  }
}

void ReadGuard::note_outside(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return;
  }
  // A view stands for its base, which is the same object each time; so is a view that is a leaf.
  const auto* info = torch::autograd::impl::get_view_autograd_meta(tensor);
  const bool is_view = info != nullptr && info->has_bw_view() && !info->requires_grad_;
  const auto& base = is_view ? info->get_backward_view().base_ : tensor;
  if (is_view) {
    const auto* meta = torch::autograd::impl::get_autograd_meta(base);
    if (meta != nullptr && meta->grad_fn_ && !innermost->start_.is_older(*meta->grad_fn_)) {
      return;
    }
  }
  for (auto* guard = innermost; guard != nullptr; guard = guard->outer_) {
    if (guard->check_ != nullptr) {
      guard->check_->check(base);
      return;
    }
    guard->log_->note(base);
  }
}

}  // namespace reprise::detail
