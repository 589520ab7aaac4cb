// The writes of a region to tensors that outlive it: running statistics, counters, caches.
//
// Note [Writes are done once]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Without checkpointing the in-place writes of a region happen once; with it, they happen in
// forward and again in every recompute. So forward logs the storages that it writes, with their
// content before the first write. The recompute starts from that content (it must compute what
// forward computed, even if forward read a buffer before it wrote it) and restores the current
// content at the end. Storages are compared by identity: a tensor made inside the region has
// another storage when the region runs again, so a storage that is written in both runs comes from
// outside.
#pragma once

#include "checkpoint/graph_mark.h"
#include "checkpoint/state/write_count.h"
#include "checkpoint/state/write_listener.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace reprise::detail {

class WriteLog {
 public:
  /// Forward: logs the storage of `target`, with its content unless the region has just allocated
  /// it.
  void record(const at::Tensor& target);
  /// Forward: a kernel writes `target` below autograd. Its content is not saved; if it turns out to
  /// come from outside, the region cannot be run again.
  void record_kernel_write(const at::Tensor& target);
  /// End of forward: forgets storages that were freed, or that a policy keeps: they belonged to the
  /// region.
  void finish(const std::function<bool(const c10::StorageImpl*)>& is_kept);
  /// Whether the region wrote the storage.
  bool has_entry(const c10::StorageImpl* storage) const;
  /// Whether the region or a kernel in it wrote the storage.
  bool has_any_write(const c10::StorageImpl* storage) const;
  /// Whether the log has the storage's content from before the region.
  bool has(const c10::StorageImpl* storage) const { return content_of(storage).defined(); }
  /// That content, as bytes; undefined if the log does not have it.
  at::Tensor content_of(const c10::StorageImpl* storage) const;
  /// Whether the region wrote a tensor from outside. Call it after finish().
  bool has_outside_writes() const {
    return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
      return entry.before.defined();
    });
  }
  /// Whether the region wrote, in grad mode, to a tensor from outside that has a history.
  bool has_foreign_history() const { return has_foreign_history_; }

 private:
  friend class WriteUndo;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  struct Entry {
    WeakStorage storage;
    c10::VariableVersion version_counter;
    uint32_t version;   // before the first write
    at::Tensor before;  // bytes; undefined for a storage that the region has just allocated
    bool is_made_inside;
  };
  /// Memory that the program owns and wrapped as a tensor (from_blob). It may be wrapped again, so
  /// it is known by its address.
  struct Memory {
    const char* begin;
    const char* end;
  };
  void prune();
  static Memory memory_of(const c10::StorageImpl& storage);
  bool has_wrapped_again(const c10::StorageImpl& storage) const;

  const GraphMark start_{};
  const size_t made_before_ = storages_made();
  bool has_foreign_history_ = false;
  WriteCount count_;
  std::vector<Entry> entries_;
  std::vector<WeakStorage> kernel_written_;
  /// What few regions write. Apart, because of a region's size (recording_scope.cpp).
  struct Unusual {
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> without_storage;  // sparse tensors
    std::vector<Memory> wrapped;
  };
  Unusual& unusual();
  std::unique_ptr<Unusual> unusual_;
};

/// In its scope, logged storages have the content that forward found. Afterwards the caller's
/// content is restored.
class WriteUndo {
 public:
  explicit WriteUndo(const WriteLog& log);
  ~WriteUndo();
  WriteUndo(const WriteUndo&) = delete;
  WriteUndo& operator=(const WriteUndo&) = delete;

  /// Whether the target is the recompute's own, or forward wrote as often. Call it once for each
  /// write of the recompute.
  bool was_in_forward(const at::Tensor& target);
  /// Call before the recompute writes `target`: saves its content if it comes from outside. Returns
  /// why the write cannot be undone, or null.
  const char* before_write(const at::Tensor& target);
  /// The same for a write of a kernel below autograd.
  const char* before_kernel_write(const at::Tensor& target) const;

  /// Restores the caller's content. The destructor does it too, but cannot throw.
  void put_back();

 private:
  struct Saved {
    c10::Storage storage;
    c10::VariableVersion version_counter;
    uint32_t version;
    at::Tensor bytes;
  };
  void save(const WriteLog::Entry& entry, c10::Storage storage);
  /// To the content that forward found before its first write.
  static void rewind(const WriteLog::Entry& entry, Saved& saved);

  const WriteLog& log_;
  const GraphMark start_{};
  const size_t made_before_ = storages_made();
  WriteCount remaining_;
  std::vector<Saved> saved_;
};

}  // namespace reprise::detail
