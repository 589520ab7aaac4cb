// The input tensors of a region, kept for its recompute.
#pragma once

#include "checkpoint/offload/candidates.h"
#include "checkpoint/state/write_log.h"
#include "checkpoint/weak_node.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

class TensorLog;

/// Note [Inputs are saved as autograd saves]
/// An input is stored as a SavedVariable. If the region is inside another one, its constructor
/// calls the outer region's hooks: then the outer region recomputes the input, and nothing here
/// holds it. A plain reference would keep every inner input alive, and nesting would free nothing.
///
/// Note [Inputs hold no history]
/// What is saved is detached, and the node that made it is only referred to weakly. A region that
/// depends on its input's history holds it by its graph. A region that detaches its input does not,
/// and must not keep the whole chain before it alive. The history of a stale view is known only
/// once the region has used it (Note [Looking at a history]).
class SavedInputs {
 public:
  explicit SavedInputs(const std::vector<at::Tensor>& inputs);

  /// The inputs. Recomputes enclosing regions if necessary. Check first_modified() before.
  std::vector<at::Tensor> unpack() const;

  /// Calls `visit(storage)` for the inputs that may be released if the recompute does not read
  /// them: plain activations that nothing else here shares.
  template <class Visit>
  void for_each_releasable(const Visit& visit) const {
    for (const auto& input : inputs_) {
      if (input.is_releasable) {
        visit(input.storage);
      }
    }
  }
  /// End of forward: releases the releasable inputs for which `is_unread(storage)`. `label`
  /// makes the region's name.
  void release(const std::function<bool(const c10::StorageImpl*)>& is_unread,
               const std::function<std::string()>& label);
  bool has_unread() const { return has_unread_; }
  /// What to say if the storage belongs to a released input and is read; null if it does not.
  const std::string* why_unreadable(const c10::StorageImpl* storage) const;

  /// Index of the first input that was modified in place since it was saved, except for inputs
  /// whose storage is ignored.
  std::optional<size_t> first_modified(
      const std::function<bool(const c10::StorageImpl*)>& is_ignored = {}) const;

  /// End of forward: inputs of an enclosing region that this region has written are taken from the
  /// log, because the enclosing one would recompute them as they are after all writes. Inputs that
  /// have got a history are noted in `tensors`.
  void take_written(const WriteLog& log, TensorLog& tensors);

  /// Whether one of them is in this storage.
  bool are_in(const c10::StorageImpl* storage) const;
  /// Whether they are saved by an enclosing region.
  bool are_hooked() const;
  /// End of forward: adds the activations to offload, except for those that the region has written.
  /// Leaves (parameters, masks, the batch) stay, because the program holds them.
  void add_candidates(OffloadCandidates& candidates,
                      const std::function<bool(const c10::StorageImpl*)>& is_written) const;
  /// Releases the accepted candidates, which are in `group` now. In-place changes are still
  /// detected.
  void move_to(const OffloadCandidates& candidates, const std::shared_ptr<OffloadGroup>& group);

 private:
  /// An input of an enclosing region, without its content. See take_written().
  struct Shape {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t offset;
    at::TensorOptions options;
    at::Tensor content = {};  // bytes before the region, if it has written them
  };
  /// What the recompute gets instead of an input that it does not read.
  struct Unread {
    at::Tensor placeholder;
    std::string why;
  };
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl>;
  static WeakTensor no_tensor() { return WeakTensor(c10::intrusive_ptr<c10::TensorImpl>()); }
  struct Input {
    void note_history(const at::Tensor& tensor);
    /// Lets go of what is held, which would hold the graph that holds the region.
    void note_got_history();
    /// What was held, as a name of what the region writes.
    at::Tensor same_name() const;

    torch::autograd::SavedVariable saved;
    std::unique_ptr<Unread> unread;
    // A leaf that no enclosing region owns, or an inference tensor, which cannot be a
    // SavedVariable.
    at::Tensor held;
    // The tensor itself and what it is a view of: a stale view, or a tensor that has got a history
    // in the region, perhaps because another name of it was written.
    WeakTensor itself = no_tensor();
    WeakTensor base = no_tensor();
    std::unique_ptr<Shape> shape;  // only of inputs of an enclosing region
    // The history, unless it is a leaf.
    bool has_history = false;
    bool requires_grad = false;
    bool is_activation = false;
    bool is_releasable = false;
    WeakNode grad_fn;
    uint32_t output_nr = 0;
    uint32_t attr_version = 0;  // of a view: what its history belongs to
    c10::VariableVersion version_counter;
    uint32_t version = 0;
    uint64_t data_writes = 0;
    const c10::StorageImpl* storage = nullptr;  // for identity
  };
  /// Inputs that share a storage share it again: `made` has the storages made so far.
  using MadeStorages = std::map<const c10::StorageImpl*, c10::Storage>;
  static at::Tensor from_content(const Input& input, MadeStorages& made);
  static at::Tensor with_history(const Input& input, const at::Tensor& detached);
  /// Whether it has a storage, which was not written since.
  static bool is_unchanged(const Input& input);
  bool is_alone(const c10::StorageImpl* storage) const;

  std::vector<Input> inputs_;
  bool has_unread_ = false;
};

}  // namespace reprise::detail
