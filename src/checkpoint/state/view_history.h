// The history of a tensor as it is, without asking LibTorch for it.
//
// Note [Looking at a history]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A view has its history for one version of its base. Once the base was written it is stale: the
// next call of grad_fn(), which every operator makes, builds another node, and hooks that are
// registered after that go there, those before it do not. So grad_fn() is an effect, and the engine
// must not have it on tensors from outside: it would move the program's hooks.
#pragma once

#include "checkpoint/private_field.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <utility>

namespace reprise::detail {

/// The tensor, undefined if it is gone.
inline at::Tensor locked(const c10::weak_intrusive_ptr<c10::TensorImpl>& weak) {
  auto impl = weak.lock();
  return impl ? at::Tensor(std::move(impl)) : at::Tensor();
}

/// Null if `tensor` is not a view that gradients pass through.
inline torch::autograd::DifferentiableViewMeta* view_meta_of(const at::Tensor& tensor) {
  const auto* meta = autograd_meta_of(tensor);
  if (meta == nullptr || !meta->is_view_) {
    return nullptr;
  }
  auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  return view->has_bw_view() ? view : nullptr;
}

/// What `tensor` is a view of, or itself.
inline const at::Tensor& base_of(const at::Tensor& tensor) {
  const auto* view = view_meta_of(tensor);
  return view == nullptr ? tensor : view->get_backward_view().base_;
}

/// Whether LibTorch would build the history anew.
inline bool is_stale(const at::Tensor& tensor) {
  const auto* view = view_meta_of(tensor);
  return view != nullptr && !tensor.is_inference() &&
         (view->grad_fn_ || view->get_backward_view().base_.requires_grad()) &&
         view->get_attr_version() !=
             tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

/// Whether LibTorch would refuse to: the base was written in a way that autograd cannot follow. It
/// is an error to use such a view, but not to pass it on.
inline bool has_lost_history(const at::Tensor& tensor) {
  return is_stale(tensor) &&
         view_meta_of(tensor)->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT;
}

/// Whether `tensor` was computed from tensors that require grad, or is a view of one that was.
inline bool has_history(const at::Tensor& tensor) {
  const auto* meta = autograd_meta_of(tensor);
  return meta != nullptr && (meta->grad_fn_ || is_stale(tensor));
}

/// Of a view: the version of its base that it has its history for.
inline uint32_t attr_version_of(const at::Tensor& tensor) {
  const auto* view = view_meta_of(tensor);
  return view == nullptr ? 0 : view->get_attr_version();
}

inline void set_attr_version(const at::Tensor& tensor, uint32_t version) {
  if (auto* view = view_meta_of(tensor)) {
    view->set_attr_version(version);
  }
}

}  // namespace reprise::detail
