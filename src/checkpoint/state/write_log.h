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

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <vector>

namespace reprise::detail {

/// Notified of operators that write tensors, on this thread, in the scope of its guard.
class WriteListener {
 public:
  /// Called before `target` is written.
  virtual void before_write(const at::Tensor& target) = 0;
  /// Called after the operator has run.
  virtual void after_write() = 0;

 protected:
  ~WriteListener() = default;

 private:
  friend class WriteListenerGuard;
  friend struct WriteDispatch;
  WriteListener* outer_ = nullptr;
};

/// Adds `listener` for its scope. Others keep listening, or pause.
class WriteListenerGuard {
 public:
  enum class Others : uint8_t { Listen, Pause };
  WriteListenerGuard(WriteListener* listener, Others others);
  ~WriteListenerGuard();
  WriteListenerGuard(const WriteListenerGuard&) = delete;
  WriteListenerGuard& operator=(const WriteListenerGuard&) = delete;

 private:
  WriteListener* previous_;
};

/// Whether the operator that is running on this thread will still write `tensor`. Autograd may save
/// a tensor before it is computed (the noise of rrelu).
bool is_about_to_be_written(const at::Tensor& tensor);

/// Whether this is the last storage that was allocated on this thread since the innermost listener
/// was added, for example by a factory or for a dropout mask. Then it belongs to the region and has
/// no content yet.
bool was_just_made(const c10::StorageImpl* storage);

/// Makes sure that every operator that writes an argument is observed, including those registered
/// since the last call.
void observe_writes();

class WriteLog {
 public:
  /// Forward: logs the storage of `target`, with its content unless the region has just allocated
  /// it.
  void record(const at::Tensor& target);
  /// End of forward: forgets storages that were freed, which belonged to the region.
  void prune();
  /// Whether the log has the storage's content from before the region.
  bool has(const c10::StorageImpl* storage) const;
  /// Whether the region wrote, in grad mode, to a tensor from outside that has a history. Running
  /// it again would add a second history.
  bool has_foreign_history() const { return has_foreign_history_; }

 private:
  friend class WriteUndo;

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::VariableVersion version_counter;
    uint32_t version;   // before the first write
    at::Tensor before;  // bytes; undefined for a storage that the region allocated
  };
  const GraphMark start_{};
  bool has_foreign_history_ = false;
  std::vector<Entry> entries_;
};

/// In its scope, logged storages have the content that forward found. Afterwards the caller's
/// content is restored.
class WriteUndo {
 public:
  explicit WriteUndo(const WriteLog& log);
  ~WriteUndo();
  WriteUndo(const WriteUndo&) = delete;
  WriteUndo& operator=(const WriteUndo&) = delete;

  /// Call before the recompute writes `target`: saves its content if it comes from outside. Returns
  /// why the write cannot be undone, or null.
  const char* before_write(const at::Tensor& target);

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

  const WriteLog& log_;
  std::vector<Saved> saved_;
};

}  // namespace reprise::detail
