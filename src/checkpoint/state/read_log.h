// The tensors from outside that a region reads: parameters, biases, masks, buffers.
//
// Note [What a region reads must not change]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Autograd checks the tensors that it saved. A bias or an embedding is not saved, so without
// regions it may be changed between forward and backward; a recompute would read the new values and
// get other activations. So forward remembers the version of each leaf that it reads, and the
// recompute compares. Tensors made inside the region are other objects in the recompute and are not
// found.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::detail {

class ReadLog {
 public:
  void note(const at::Tensor& leaf);
  /// End of forward: forgets tensors that are gone, which belonged to the region.
  void finish();

 private:
  friend class ReadCheck;
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> leaf;
    const c10::StorageImpl* storage;
    uint32_t version;
    uint64_t data_writes;
  };
  std::vector<Entry> entries_;
};

/// Compares the reads of a recompute with forward's.
class ReadCheck {
 public:
  explicit ReadCheck(const ReadLog& log) : log_(log), is_checked_(log.entries_.size()) {}
  void check(const at::Tensor& leaf);
  /// What changed; empty if nothing did.
  const std::string& difference() const { return difference_; }

 private:
  const ReadLog& log_;
  std::vector<bool> is_checked_;
  size_t next_ = 0;
  std::string difference_;
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
  static bool notes();

 private:
  friend void note_leaf(const at::Tensor& leaf);
  ReadLog* log_ = nullptr;
  ReadCheck* check_ = nullptr;
  ReadGuard* outer_;
  static thread_local ReadGuard* innermost;
};

void note_leaf(const at::Tensor& leaf);
void note_view(const at::Tensor& view);

/// An operator of the program reads `tensor`. Results of differentiable operators are of no
/// interest: only leaves, and views of them, may come from outside.
inline void note_read(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(impl->autograd_meta());
  if (meta == nullptr) {
    if (tensor.defined() && !impl->is_wrapped_number()) {
      note_leaf(tensor);
    }
  } else if (meta->is_view_) {
    note_view(tensor);
  } else if (!meta->grad_fn_) {
    note_leaf(tensor);
  }
}

}  // namespace reprise::detail
