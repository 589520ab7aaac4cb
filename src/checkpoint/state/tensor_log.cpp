#include "checkpoint/state/tensor_log.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/private_field.h"
#include "checkpoint/state/retained_grads.h"
#include "checkpoint/state/version_counter.h"
#include "checkpoint/state/view_history.h"

#include <reprise/detail/host_language.h>

#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace reprise::detail {
namespace {

using torch::autograd::Node;

template <class Entries>
auto find_tensor(Entries& entries, const c10::TensorImpl* impl) {
  return std::find_if(entries.begin(), entries.end(), [impl](const auto& entry) {
    return entry.tensor._unsafe_get_target() == impl;
  });
}

/// The tensors whose gradients a backward call from `roots` accumulates: leaves, and those from
/// before `start` that retain theirs.
std::vector<at::Tensor> accumulated_by(const torch::autograd::edge_list& roots,
                                       const GraphMark& start) {
  std::vector<at::Tensor> tensors;
  std::vector<Node*> open;
  std::unordered_set<Node*> seen;
  const auto push = [&](const torch::autograd::Edge& edge) {
    if (edge.function && seen.insert(edge.function.get()).second) {
      open.push_back(edge.function.get());
    }
  };
  for (const auto& root : roots) {
    push(root);
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (const auto* accumulation = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      tensors.push_back(accumulation->variable);
    } else if (start.is_older(*node)) {
      add_retained(*node, tensors);
    }
    for (const auto& edge : node->next_edges()) {
      push(edge);
    }
  }
  return tensors;
}

at::Tensor shape_alias(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(c10::VariableVersion(0),
                                                  /*allow_tensor_metadata_change=*/true));
}

}  // namespace

void TensorLog::before_write(const at::Tensor& target) {
  if (!at::GradMode::is_enabled() || target.is_inference()) {
    return;
  }
  note_history(base_of(target));
  note_history(target);  // a view has a history of its own
}

void TensorLog::note_history(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  const auto grad_fn = meta == nullptr ? NodePtr() : meta->grad_fn_;
  if ((grad_fn && !start_.is_older(*grad_fn)) ||
      find_tensor(histories_, tensor.unsafeGetTensorImpl()) != histories_.end()) {
    return;
  }
  histories_.push_back({WeakTensor(tensor.getIntrusivePtr()),
                        WeakNode(grad_fn),
                        grad_fn != nullptr,
                        meta == nullptr ? 0 : meta->output_nr_,
                        attr_version_of(tensor)});
}

void TensorLog::note_without_history(const at::Tensor& tensor, uint32_t attr_version) {
  if (find_tensor(histories_, tensor.unsafeGetTensorImpl()) == histories_.end()) {
    histories_.push_back(
        {WeakTensor(tensor.getIntrusivePtr()), WeakNode(), false, 0, attr_version});
  }
}

void TensorLog::before_set(const at::Tensor& target) {
  if (find_tensor(shapes_, target.unsafeGetTensorImpl()) == shapes_.end()) {
    shapes_.push_back({WeakTensor(target.getIntrusivePtr()), shape_alias(target)});
  }
}

void TensorLog::before_accumulation(const torch::autograd::edge_list& roots) {
  const EngineOpsGuard guard;
  for (const auto& tensor : accumulated_by(roots, start_)) {
    const auto* impl = tensor.unsafeGetTensorImpl();
    const bool is_known = std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& one) {
      return one.tensor._unsafe_get_target() == impl;
    });
    if (!is_known) {
      const auto& gradient = tensor.mutable_grad();  // grad() warns of tensors that are no leaves
      gradients_.push_back({WeakTensor(tensor.getIntrusivePtr()),
                            gradient.defined() ? gradient.detach().clone() : at::Tensor()});
    }
  }
}

void TensorLog::hook_added(const at::Tensor& tensor, unsigned number) {
  hooks_.push_back({WeakTensor(tensor.getIntrusivePtr()), tensor.is_leaf(), number});
}

bool TensorLog::has_hooked(const at::Tensor& leaf) const {
  return find_tensor(hooks_, leaf.unsafeGetTensorImpl()) != hooks_.end();
}

bool TensorLog::has_set(const at::Tensor& tensor) const {
  return find_tensor(shapes_, tensor.unsafeGetTensorImpl()) != shapes_.end();
}

bool HookReplay::is_outside(const at::Tensor& tensor) const {
  // Not grad_fn(): Note [Looking at a history].
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  const auto node = meta == nullptr ? NodePtr() : meta->grad_fn_;
  return node ? start_.is_older(*node) : log_.has_hooked(tensor);
}

unsigned HookReplay::next(const at::Tensor& tensor) {
  for (size_t i = 0; i < is_used_.size(); ++i) {
    const auto& hook = log_.hooks_[i];
    // The recompute has another object for an input that is no leaf.
    const bool is_it = hook.is_leaf
                           ? hook.tensor._unsafe_get_target() == tensor.unsafeGetTensorImpl()
                           : !tensor.is_leaf();
    if (!is_used_[i] && is_it) {
      is_used_[i] = true;
      return hook.number;
    }
  }
  return 0;
}

void TensorLog::finish() {
  const auto is_gone = [](const auto& entry) { return entry.tensor.expired(); };
  std::erase_if(histories_, is_gone);
  std::erase_if(shapes_, is_gone);
  std::erase_if(gradients_, is_gone);
}

VersionUndo::VersionUndo(const TensorLog& log) {
  for (const auto& entry : log.shapes_) {
    if (const auto tensor = locked(entry.tensor); tensor.defined()) {
      saved_.push_back({tensor.unsafeGetTensorImpl()->version_counter(), current_version(tensor)});
    }
  }
}

VersionUndo::~VersionUndo() {
  for (auto& saved : saved_) {
    set_version(saved.counter, saved.version);
  }
}

TensorUndo::TensorUndo(const TensorLog& log) {
  for (const auto& entry : log.histories_) {
    rewind(entry);
  }
  // A view that is to be written needs its node.
  for (auto& saved : histories_) {
    if (is_stale(saved.tensor) && !has_lost_history(saved.tensor)) {
      const EngineOpsGuard guard;
      saved.rewound_to = saved.tensor.grad_fn().get();
    }
  }
  for (const auto& entry : log.shapes_) {
    if (auto tensor = locked(entry.tensor); tensor.defined()) {
      shapes_.push_back({tensor, shape_alias(tensor)});
      tensor.unsafeGetTensorImpl()->shallow_copy_from(entry.before.getIntrusivePtr());
    }
  }
  const EngineOpsGuard guard;
  for (const auto& entry : log.gradients_) {
    if (auto tensor = locked(entry.tensor); tensor.defined()) {
      auto before = entry.before.defined() ? entry.before.clone() : at::Tensor();
      gradients_.push_back({tensor, std::exchange(tensor.mutable_grad(), std::move(before))});
    }
  }
}

void TensorUndo::rewind(const TensorLog::History& entry) {
  auto tensor = locked(entry.tensor);
  if (!tensor.defined()) {
    return;
  }
  auto grad_fn = entry.grad_fn.lock();
  // A history that is gone led nowhere that the region depends on, or it was a view's, which
  // LibTorch builds anew from its base.
  const bool is_gone = entry.has_node && !grad_fn;
  auto* meta = torch::autograd::impl::materialize_autograd_meta(tensor);
  histories_.push_back({tensor,
                        std::exchange(meta->grad_fn_, grad_fn),
                        std::exchange(meta->output_nr_, entry.output_nr),
                        grad_fn.get(),
                        attr_version_of(tensor),
                        std::exchange(meta->hooks_, {}),
                        std::exchange(meta->cpp_hooks_list_, nullptr),
                        std::exchange(meta->retains_grad_, false)});
  set_attr_version(tensor, entry.attr_version - (is_gone ? 1 : 0));
}

bool TensorUndo::gave_history() const {
  return std::any_of(histories_.begin(), histories_.end(), [](const History& saved) {
    return torch::autograd::impl::get_autograd_meta(saved.tensor)->grad_fn_.get() !=
           saved.rewound_to;
  });
}

void TensorUndo::rewind_view(const at::Tensor& target) const {
  auto* view = view_meta_of(target);
  if (view == nullptr || !view->grad_fn_) {
    return;
  }
  const auto& base = view->get_backward_view().base_;
  const bool is_rewound =
      std::any_of(histories_.begin(), histories_.end(), [&](const History& saved) {
        return saved.tensor.is_same(base) && saved.rewound_to == nullptr;
      });
  if (is_rewound && !base.requires_grad()) {
    view->grad_fn_.reset();
    view->output_nr_ = 0;
  }
}

TensorUndo::~TensorUndo() {
  for (auto& saved : histories_) {
    auto* meta = torch::autograd::impl::get_autograd_meta(saved.tensor);
    meta->grad_fn_ = std::move(saved.grad_fn);
    meta->output_nr_ = saved.output_nr;
    meta->hooks_ = std::move(saved.hooks);
    meta->cpp_hooks_list_ = std::move(saved.hook_list);
    meta->retains_grad_ = saved.retains_grad;
    set_attr_version(saved.tensor, saved.attr_version);
  }
  for (const auto& saved : shapes_) {
    saved.tensor.unsafeGetTensorImpl()->shallow_copy_from(saved.callers.getIntrusivePtr());
  }
  for (auto& saved : gradients_) {
    saved.tensor.mutable_grad() = std::move(saved.callers);
  }
}

void FrozenGuard::watch(const at::Tensor& tensor) {
  const auto* meta = autograd_meta_of(tensor);
  if (meta == nullptr || (!meta->grad_fn_ && !meta->is_view_)) {
    leaves_.emplace_back(tensor, meta != nullptr && meta->requires_grad_);
  }
}

FrozenGuard::~FrozenGuard() {
  for (const auto& [leaf, requires_grad] : leaves_) {
    if (leaf.is_leaf() && leaf.requires_grad() != requires_grad) {
      leaf.set_requires_grad(requires_grad);
    }
  }
}

void NodeHooksGuard::watch(const at::Tensor& tensor) {
  const auto* meta = tensor.defined() ? torch::autograd::impl::get_autograd_meta(tensor) : nullptr;
  if (meta == nullptr) {
    return;
  }
  if (auto node = meta->grad_fn_ ? meta->grad_fn_ : meta->grad_accumulator_.lock()) {
    const size_t pre = node->pre_hooks().size(), tensor_pre = node->tensor_pre_hooks().size();
    const size_t post = node->post_hooks().size();
    const auto* host = pre + post == 0 ? nullptr : host_language();
    auto of_host = host == nullptr ? nullptr : host->keep_hooks(*node);
    nodes_.push_back({std::move(node), pre, tensor_pre, post, std::move(of_host)});
  }
}

NodeHooksGuard::~NodeHooksGuard() {
  const auto cut = [](auto& hooks, size_t count) {
    if (hooks.size() > count) {
      hooks.erase(hooks.begin() + static_cast<ptrdiff_t>(count), hooks.end());
    }
  };
  for (const auto& counted : nodes_) {
    cut(counted.node->pre_hooks(), counted.pre_hooks);
    cut(counted.node->tensor_pre_hooks(), counted.tensor_pre_hooks);
    cut(counted.node->post_hooks(), counted.post_hooks);
  }
}

}  // namespace reprise::detail
