// Which inputs of a region its recompute will read.
//
// Note [Inputs that no recompute reads]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A recompute ends with the last tensor that autograd saved. An input that is read only later, or
// never (its sizes, or a result that is the input itself), is dead weight until backward. So
// forward watches its inputs' storages: what an operator reads before the last save is needed, and
// so is what autograd saves itself. The rest is released when forward ends. The recompute gets a
// tensor of the same sizes and history in its place, whose memory cannot be read: doing so is
// different work, and an error.
//
// Reads are seen in operators. Where they may happen beside them, inputs are held: in custom
// functions, whose kernels may use data_ptr() (they allocate with grad mode off), and where a
// region calls backward or another thread's engine could. Leaves are held in any case: the program
// has them, and parameters must stay the same objects.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

namespace reprise::detail {

class InputReads {
 public:
  void watch(const c10::StorageImpl* storage) {
    inputs_.push_back({storage});
    is_open_ = true;
  }
  /// Whether some watched input is not known to be needed.
  bool is_open() const { return is_open_; }

  /// An operator reads the tensor.
  void read(const at::Tensor& tensor) {
    if (auto* input = find(tensor)) {
      input->is_read = true;
    }
  }
  /// Autograd saves the tensor: a recompute gets this far.
  void saved(const at::Tensor& tensor) {
    if (!is_open_) {
      return;
    }
    read(tensor);
    is_open_ = false;
    for (auto& input : inputs_) {
      input.is_needed = input.is_read;
      is_open_ = is_open_ || !input.is_read;
    }
  }
  /// There may be reads that nobody sees.
  void hold_all() {
    inputs_.clear();
    is_open_ = false;
  }

  /// Whether the storage is watched and a recompute does not read it. `stops_early`: it ends with
  /// the last save.
  bool is_unread(const c10::StorageImpl* storage, bool stops_early) const {
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) {
      return input.storage == storage && !(stops_early ? input.is_needed : input.is_read);
    });
  }

 private:
  struct Input {
    const c10::StorageImpl* storage;  // held by the region until forward ends
    bool is_read = false;
    bool is_needed = false;  // read before the last save
  };
  Input* find(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) {
      return nullptr;
    }
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    auto* found = std::find_if(inputs_.begin(), inputs_.end(), [storage](const Input& input) {
      return input.storage == storage;
    });
    return found == inputs_.end() ? nullptr : found;
  }

  c10::SmallVector<Input, 2> inputs_;
  bool is_open_ = false;
};

}  // namespace reprise::detail
