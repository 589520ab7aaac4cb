// Writes of a region to tensors that outlive it: running statistics, counters, caches.
//
// Note [Writes are done once]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Plain training runs a region's in-place writes once; with checkpointing they run in forward and again in
// every recompute. So forward logs which storages it writes, with their content before the first write. The
// recompute starts from that content (it must compute what forward computed, even where forward read a
// buffer before it wrote it) and at the end puts back what it found. A storage is identified by itself:
// a tensor made inside the region has another storage when the region runs again, so what is written in
// both runs came from outside.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <vector>

namespace reprise::detail {

/// Is told about operators that write tensors, on this thread, while it is listening.
class WriteListener {
 public:
  /// `target` is about to be written; if `overwrites`, without its old content being read.
  virtual void before_write(const at::Tensor& target, bool overwrites) = 0;
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

/// Whether the operator that runs right now on this thread is yet to write `tensor`: autograd has saved it,
/// its content is not there yet (rrelu's noise).
bool is_about_to_be_written(const at::Tensor& tensor);

/// Makes sure that every operator that writes an argument is observed, those registered lately included.
void observe_writes();

class WriteLog {
 public:
  /// Forward: remembers the storage of `target`, and its content if it may matter.
  void record(const at::Tensor& target, bool overwrites);
  /// End of forward: forgets storages that are gone, which were the region's own.
  void prune();
  /// Whether the storage's content before the region is at hand.
  bool has(const c10::StorageImpl* storage) const;

 private:
  friend class WriteUndo;

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::VariableVersion version_counter;
    uint32_t version;   // before the first write
    at::Tensor before;  // bytes; undefined if the region never read them before it wrote
  };
  std::vector<Entry> entries_;
};

/// For the scope of a recompute: logged storages as forward found them, afterwards as the caller left them.
class WriteUndo {
 public:
  explicit WriteUndo(const WriteLog& log);
  ~WriteUndo();
  WriteUndo(const WriteUndo&) = delete;
  WriteUndo& operator=(const WriteUndo&) = delete;

  /// Recompute is about to write `target`: keeps what is there if it came from outside.
  void before_write(const at::Tensor& target);

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
