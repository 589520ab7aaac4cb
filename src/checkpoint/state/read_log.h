// The tensors from outside that a region reads: parameters, biases, masks, buffers.
//
// Note [What a region reads must not change]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Autograd checks the tensors that it saved. A bias or an embedding is not saved, so without
// regions it may be changed between forward and backward; a recompute would read the new values and
// get other activations. So forward remembers the version of each tensor that it reads and did not
// make, and the recompute compares. Tensors made inside the region are other objects in the
// recompute and are not found.
#pragma once

#include "checkpoint/graph_mark.h"
#include "checkpoint/hot_thread_local.h"
#include "checkpoint/private_field.h"
#include "checkpoint/state/input_reads.h"
#include "checkpoint/state/saved_inputs.h"
#include "checkpoint/state/write_log.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

class ReadLog {
 public:
  /// The region's inputs among what it reads: see Note [Inputs that no recompute reads].
  InputReads inputs;

  void note(const at::Tensor& tensor);
  /// End of forward: forgets tensors that are gone, or that the region keeps: they belonged to it.
  /// Of inputs it only remembers which storage they had.
  void finish(const std::function<bool(const c10::StorageImpl*)>& is_kept,
              const std::function<bool(const c10::StorageImpl*)>& is_input);

  /// Calls `visit(tensor)` for all that are still there.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& entry : entries_) {
      if (auto impl = entry.tensor.lock()) {
        visit(at::Tensor(std::move(impl)));
      }
    }
    for (size_t i = 0; other_names_ && i < other_names_->size(); ++i) {
      if (auto impl = (*other_names_)[i].lock()) {
        visit(at::Tensor(std::move(impl)));
      }
    }
  }
  /// Whether `tensor` was read, or is the gradient of a leaf that was.
  bool knows(const at::Tensor& tensor) const;

 private:
  friend class ReadCheck;
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // the same storage may have other tensors
    c10::VariableVersion version_counter;
    uint32_t version;
    bool requires_grad;
    uint64_t data_writes;
    uint64_t sample;
    bool is_input = false;  // of the region, which compares them by themselves
  };
  const Entry* find(const at::Tensor& tensor) const;
  void note_name(const at::Tensor& tensor, size_t entry);
  void drop_dead_names();

  std::vector<Entry> entries_;
  // Tensors that share the storage of an entry and have a history or a gradient of their own: an
  // entry may stand for a detached alias of them, which was read first. Null: none.
  std::unique_ptr<std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>> other_names_;
  // By tensor and by storage, once there are many.
  ska::flat_hash_map<const void*, size_t> index_;
};

/// Compares the reads of a recompute with forward's.
class ReadCheck {
 public:
  /// What the region wrote is not compared: the recompute starts from the content in `writes`.
  /// Released `inputs` must not be read.
  ReadCheck(const ReadLog& log, const WriteLog& writes, const SavedInputs& inputs)
      : log_(log), writes_(writes), inputs_(inputs), is_checked_(log.entries_.size()) {}
  void check(const at::Tensor& tensor);
  /// The recompute gives `tensor` other data, as forward did: from here on it is the region's own.
  void note_set(const at::Tensor& tensor) { set_.push_back(tensor.unsafeGetTensorImpl()); }
  /// Whether some input was released.
  bool is_watching() const { return inputs_.has_unread(); }
  /// Throws if `tensor` is in a released input.
  void check_input(const at::Tensor& tensor);
  /// Which released input was read; empty if none was.
  const std::string& unread_input() const { return unread_input_; }
  /// What changed; empty if nothing did.
  const std::string& difference() const { return difference_; }
  /// The first parameter that is read and was not read in forward; empty if there is none.
  const std::string& new_parameter() const { return new_parameter_; }

 private:
  const ReadLog& log_;
  const WriteLog& writes_;
  const SavedInputs& inputs_;
  c10::SmallVector<bool, 32> is_checked_;
  std::vector<const c10::TensorImpl*> set_;
  std::string difference_;
  std::string unread_input_;
  std::string new_parameter_;
};

/// Notes or checks what this thread reads, in its scope. Enclosing regions take part, up to one
/// that is being recomputed.
class ReadGuard {
 public:
  explicit ReadGuard(ReadLog* log);
  explicit ReadGuard(ReadCheck* check);
  ~ReadGuard();
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

  /// Whether this thread notes or checks reads.
  static bool notes() { return innermost != nullptr; }
  /// An operator has made `tensor`. Those without a history are remembered for a while: note()
  /// could not tell them from tensors from outside.
  static void note_made(const at::Tensor& tensor) {
    const auto* meta = autograd_meta_of(tensor);
    if (meta == nullptr || (!meta->grad_fn_ && !meta->is_view_)) {
      innermost->settle(tensor);
    }
  }
  /// An operator reads `tensor`. Only tensors that the innermost region did not compute are of
  /// interest: leaves, results of older operators, and views of these.
  static void note(const at::Tensor& tensor) {
    if (innermost->is_watching_) {
      note_input(tensor);
    }
    const auto* meta = autograd_meta_of(tensor);
    if (meta != nullptr && meta->grad_fn_ && !meta->is_view_ &&
        !innermost->start_.is_older(*meta->grad_fn_)) {
      return;
    }
    if (innermost->is_settled(tensor)) {
      return;
    }
    note_outside(tensor);
    if (meta != nullptr && meta->requires_grad_ && !meta->is_view_) {
      innermost->settle(tensor);  // a parameter, which stays where it is
    }
  }

  /// An operator takes `tensor`, and may read it where it is not observed.
  static void note_input(const at::Tensor& tensor);
  /// The program may read tensors without an operator here.
  static void note_hidden_reads();

 private:
  static void note_outside(const at::Tensor& tensor);

  static constexpr size_t kSettled = 8;
  /// Only compared. A tensor that the region makes of an outside one's memory (detach) may have the
  /// address of one that is gone, but not its storage too.
  struct Settled {
    const c10::TensorImpl* tensor = nullptr;
    const c10::StorageImpl* storage = nullptr;
  };
  static const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  bool is_settled(const at::Tensor& tensor) const {
    const auto* impl = tensor.unsafeGetTensorImpl();
    for (const auto& settled : settled_) {
      if (settled.tensor == impl && settled.storage == storage_of(tensor)) {
        return true;
      }
    }
    return false;
  }
  void settle(const at::Tensor& tensor) {
    settled_[next_settled_++ % kSettled] = {tensor.unsafeGetTensorImpl(), storage_of(tensor)};
  }

  ReadLog* log_ = nullptr;
  ReadCheck* check_ = nullptr;
  const GraphMark start_{};
  std::array<Settled, kSettled> settled_{};  // need not be noted: made inside, or noted already
  size_t next_settled_ = 0;
  ReadGuard* outer_;
  bool is_watching_;  // some region's inputs, here or further out
  static REPRISE_HOT_THREAD_LOCAL ReadGuard* innermost;
};

}  // namespace reprise::detail
