// Writes of a region to tensors that outlive it: running statistics, counters, caches.
//
// Note [Writes are done once]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Plain training runs a region's in-place writes once; with checkpointing they run in forward and
// again in every recompute. So forward logs which storages it writes, with their content before the
// first write. The recompute starts from that content (it must compute what forward computed, even
// where forward read a buffer before it wrote it) and at the end puts back what it found. A storage
// is identified by itself: a tensor made inside the region has another storage when the region runs
// again, so what is written in both runs came from outside.
#pragma once

#include "checkpoint/graph_mark.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <vector>

namespace reprise::detail {

/// Is told about operators that write tensors, on this thread, while it is listening.
class WriteListener {
 public:
  /// `target` is about to be written.
  virtual void before_write(const at::Tensor& target) = 0;
  /// The operator that was announced has run.
  virtual void after_write() = 0;

 protected:
  ~WriteListener() = default;

 private:
  friend class WriteListenerGuard;
  friend struct WriteDispatch;
  WriteListener* outer_ = nullptr;
};

/// Makes `listener` listen, beside those that already do or alone.
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

/// Whether the operator that runs right now on this thread is yet to write `tensor`: autograd has
/// saved it, its content is not there yet (rrelu's noise).
bool is_about_to_be_written(const at::Tensor& tensor);

/// Whether the storage is the last one that an operator made on this thread, since the innermost
/// listener began to listen: a factory is filling it, or dropout its mask. The region's own, and
/// without content.
bool was_just_made(const c10::StorageImpl* storage);

/// Makes sure that every operator that writes an argument is observed, those registered lately
/// included.
void observe_writes();

class WriteLog {
 public:
  /// Forward: remembers the storage of `target`, and its content unless the region has just made
  /// it.
  void record(const at::Tensor& target);
  /// End of forward: forgets storages that are gone, which were the region's own.
  void prune();
  /// Whether the storage's content before the region is at hand.
  bool has(const c10::StorageImpl* storage) const;
  /// Whether the region wrote, with gradients on, a tensor from outside that has a history. Running
  /// it again would write a second history into it.
  bool has_foreign_history() const { return has_foreign_history_; }

 private:
  friend class WriteUndo;

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::VariableVersion version_counter;
    uint32_t version;   // before the first write
    at::Tensor before;  // bytes; undefined for a storage that the region made
  };
  const GraphMark start_{};
  bool has_foreign_history_ = false;
  std::vector<Entry> entries_;
};

/// For the scope of a recompute: logged storages as forward found them, afterwards as the caller
/// left them.
class WriteUndo {
 public:
  explicit WriteUndo(const WriteLog& log);
  ~WriteUndo();
  WriteUndo(const WriteUndo&) = delete;
  WriteUndo& operator=(const WriteUndo&) = delete;

  /// Recompute is about to write `target`: keeps what is there if it came from outside. Returns why
  /// that write cannot be undone, or null.
  const char* before_write(const at::Tensor& target);

  /// The recompute is over: puts back what was found. The destructor does it too, but cannot throw.
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
