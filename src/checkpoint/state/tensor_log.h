// What a region does to tensor objects from outside, other than writing their content: giving them
// a history, another storage or other sizes, gradients, hooks. A recompute starts from what forward
// found and restores what it found itself, as with content (Note [Writes are done once]). Tensors
// are compared by identity.
#pragma once

#include "checkpoint/graph_mark.h"
#include "checkpoint/state/hook_order.h"
#include "checkpoint/weak_node.h"

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::detail {

class TensorLog {
 public:
  /// Forward: `target` is about to be written and may get a history.
  void before_write(const at::Tensor& target);
  /// Forward: `tensor` had no history when the region began. Of a view: for that version.
  void note_without_history(const at::Tensor& tensor, uint32_t attr_version);
  /// Forward: `target` is about to get another storage or other sizes.
  void before_set(const at::Tensor& target);
  /// Forward: a backward call inside the region, in which hooks up to this number run.
  void before_backward(uint64_t hook_limit) { calls_.push_back(hook_limit); }
  /// Forward: a backward call inside the region is about to accumulate gradients.
  void before_accumulation(const torch::autograd::edge_list& roots);
  /// Forward: a hook has been added to `tensor`, with this number.
  void hook_added(const at::Tensor& tensor, unsigned number);
  /// End of forward: forgets tensors that are gone, which belonged to the region.
  void finish();

  /// Whether the region gave a tensor from outside another storage, or called backward.
  bool has_sets_or_backward() const { return !shapes_.empty() || !calls_.empty(); }
  /// Whether forward gave `tensor` another storage, or other sizes.
  bool has_set(const at::Tensor& tensor) const;
  /// Whether a backward call inside the region accumulates gradients.
  bool has_gradients() const { return !gradients_.empty(); }
  /// Whether forward added a hook to this leaf.
  bool has_hooked(const at::Tensor& leaf) const;

 private:
  friend class TensorUndo;
  friend class VersionUndo;
  friend class HookReplay;
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl>;
  struct History {
    WeakTensor tensor;
    WeakNode grad_fn;
    bool has_node;
    uint32_t output_nr;
    uint32_t attr_version;  // of a view: the version of its base that it has this history for
  };
  struct Shape {
    WeakTensor tensor;
    at::Tensor before;  // an alias
  };
  struct Gradient {
    WeakTensor tensor;  // a leaf, or one that retains its gradient
    at::Tensor before;  // a copy; undefined if there was none
  };

  void note_history(const at::Tensor& tensor);

  const GraphMark start_{};
  std::vector<History> histories_;
  std::vector<Shape> shapes_;
  std::vector<Gradient> gradients_;
  std::vector<uint64_t> calls_;  // see Note [Hooks of a backward call inside]
  struct Hook {
    WeakTensor tensor;
    bool is_leaf;
    unsigned number;
  };
  std::vector<Hook> hooks_;
};

/// The hooks that a recompute would add to tensors from outside: Note [Hooks are registered once].
class HookReplay {
 public:
  explicit HookReplay(const TensorLog& log) : log_(log), is_used_(log.hooks_.size()) {}

  /// Whether the tensor existed before the recompute.
  bool is_outside(const at::Tensor& tensor) const;
  /// The position that forward's hook has.
  unsigned next(const at::Tensor& tensor);
  /// The last hook that may run in the next backward call.
  uint64_t next_limit() {
    return next_call_ < log_.calls_.size() ? log_.calls_[next_call_++] : kNoHookLimit;
  }

 private:
  const TensorLog& log_;
  const GraphMark start_{};
  std::vector<bool> is_used_;
  size_t next_call_ = 0;
};

/// Giving a tensor other sizes is a change in place (t_). At the end of this scope, which encloses
/// that of WriteUndo, the tensors of which forward did it have the caller's version.
class VersionUndo {
 public:
  explicit VersionUndo(const TensorLog& log);
  ~VersionUndo();
  VersionUndo(const VersionUndo&) = delete;
  VersionUndo& operator=(const VersionUndo&) = delete;

 private:
  struct Saved {
    c10::VariableVersion counter;
    uint32_t version;
  };
  std::vector<Saved> saved_;
};

/// In its scope, tensors from outside are as forward found them.
class TensorUndo {
 public:
  explicit TensorUndo(const TensorLog& log);
  ~TensorUndo();
  TensorUndo(const TensorUndo&) = delete;
  TensorUndo& operator=(const TensorUndo&) = delete;

  /// Whether one of them has got a history since.
  bool gave_history() const;
  /// Call before the recompute writes `target`. If that is a view of a captured view, which itself
  /// was not written in forward and so is not rewound, it has a history of after the region.
  void rewind_view(const at::Tensor& target) const;

 private:
  /// What the caller has. Its hooks belong to its history: a recompute that gave the tensor another
  /// one would take them along.
  struct History {
    at::Tensor tensor;
    NodePtr grad_fn;
    uint32_t output_nr;
    const torch::autograd::Node* rewound_to;
    uint32_t attr_version;
    std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> hooks;
    std::shared_ptr<torch::autograd::hooks_list> hook_list;
    bool retains_grad;
  };
  void rewind(const TensorLog::History& entry);
  struct Pair {
    at::Tensor tensor;
    at::Tensor callers;
  };
  std::vector<History> histories_;
  std::vector<Pair> shapes_;
  std::vector<Pair> gradients_;
};

/// In its scope, the watched leaves may be frozen and unfrozen. Afterwards they are as before: an
/// early stop may have come in between.
class FrozenGuard {
 public:
  FrozenGuard() = default;
  ~FrozenGuard();
  void watch(const at::Tensor& tensor);
  FrozenGuard(const FrozenGuard&) = delete;
  FrozenGuard& operator=(const FrozenGuard&) = delete;

 private:
  c10::SmallVector<std::pair<at::Tensor, bool>, 8> leaves_;
};

/// In its scope, hooks may be added to the nodes that made the watched tensors, or that accumulate
/// their gradients. They are removed at the end, because forward has added them already.
class NodeHooksGuard {
 public:
  NodeHooksGuard() = default;
  ~NodeHooksGuard();
  void watch(const at::Tensor& tensor);
  NodeHooksGuard(const NodeHooksGuard&) = delete;
  NodeHooksGuard& operator=(const NodeHooksGuard&) = delete;

 private:
  struct Counted {
    NodePtr node;
    size_t pre_hooks;
    size_t tensor_pre_hooks;
    size_t post_hooks;
    std::shared_ptr<void> of_host;  // more hooks, each behind one of these
  };
  c10::SmallVector<Counted, 4> nodes_;
};

}  // namespace reprise::detail
