#include "checkpoint/state/read_log.h"

#include "checkpoint/state/data_writes.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

/// Most reads repeat one of the last few.
constexpr size_t kRecent = 16;

uint32_t version_of(const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage()
             ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()
             : nullptr;
}

}  // namespace

void ReadLog::note(const at::Tensor& leaf) {
  const auto* impl = leaf.unsafeGetTensorImpl();
  const size_t recent = std::min(entries_.size(), kRecent);
  for (auto entry = entries_.rbegin(); entry != entries_.rbegin() + static_cast<ptrdiff_t>(recent);
       ++entry) {
    if (entry->leaf._unsafe_get_target() == impl) {
      return;
    }
  }
  entries_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(leaf.getIntrusivePtr()),
                      storage_of(leaf),
                      version_of(leaf),
                      data_writes(storage_of(leaf))});
}

void ReadLog::finish() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.leaf.expired(); });
  entries_.shrink_to_fit();
}

void ReadCheck::check(const at::Tensor& leaf) {
  const auto* impl = leaf.unsafeGetTensorImpl();
  const size_t count = log_.entries_.size();
  for (size_t i = 0; i < count; ++i) {
    // The order is that of forward, so the first is usually the right one.
    const size_t index = next_ + i < count ? next_ + i : next_ + i - count;
    const auto& entry = log_.entries_[index];
    if (entry.leaf._unsafe_get_target() != impl) {
      continue;
    }
    next_ = index;
    // Only the first read counts: afterwards the region itself may have written the tensor.
    if (!is_checked_[index]) {
      is_checked_[index] = true;
      if (entry.version != version_of(leaf) || entry.storage != storage_of(leaf) ||
          entry.data_writes != data_writes(entry.storage)) {
        difference_ = c10::str("a tensor that it reads (",
                               leaf.toString(),
                               " ",
                               leaf.is_nested() ? c10::IntArrayRef() : leaf.sizes(),
                               ") has been modified by an inplace operation since forward");
      }
    }
    return;
  }
}

thread_local ReadGuard* ReadGuard::innermost = nullptr;

ReadGuard::ReadGuard(ReadLog* log)
    : log_(log), outer_(std::exchange(innermost, log == nullptr ? nullptr : this)) {}

ReadGuard::ReadGuard(ReadCheck* check) : check_(check), outer_(std::exchange(innermost, this)) {}

ReadGuard::~ReadGuard() {
  innermost = outer_;
}

bool ReadGuard::notes() {
  return innermost != nullptr;
}

void note_leaf(const at::Tensor& leaf) {
  for (auto* guard = ReadGuard::innermost; guard != nullptr; guard = guard->outer_) {
    if (guard->check_ != nullptr) {
      guard->check_->check(leaf);
      return;
    }
    guard->log_->note(leaf);
  }
}

void note_view(const at::Tensor& view) {
  const auto* info = torch::autograd::impl::get_view_autograd_meta(view);
  if (info == nullptr || !info->has_bw_view()) {
    return note_leaf(view);
  }
  const auto& base = info->get_backward_view().base_;
  const auto* meta = torch::autograd::impl::get_autograd_meta(base);
  if (meta == nullptr || !meta->grad_fn_) {
    note_leaf(base);
  }
}

}  // namespace reprise::detail
