// Checkpointing for torch::nn modules.
//
// Module::forward is not virtual, so nothing can slip in front of it from outside. What is
// possible:
// - A child of torch::nn::Sequential is called through a type-erased handle; that handle is
// replaced.
// - Any other module is marked, and obeys where its caller writes reprise::call(block, x) for
// block(x).
#pragma once

#include <reprise/checkpoint.h>
#include <reprise/export.h>
#include <reprise/options.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// Checkpoints every submodule of `model` that `is_region` accepts (the model itself is not asked).
/// Options are copied; regions get the module's path as name unless options.name is set. Returns
/// how many modules it affected. Throws, naming the types it saw, if that would be none, or if a
/// match cannot be affected.
///
/// Parameters, buffers, names and train/eval state stay as they are. A child of a Sequential must
/// map one tensor to one tensor; after wrapping, Sequential::at<T>() no longer finds it by type.
REPRISE_API size_t
apply_activation_checkpointing(torch::nn::Module& model,
                               const CheckpointOptions& options,
                               const std::function<bool(const torch::nn::Module&)>& is_region);

template <class M>
size_t apply_activation_checkpointing(
    const torch::nn::ModuleHolder<M>& model,
    const CheckpointOptions& options,
    const std::function<bool(const torch::nn::Module&)>& is_region) {
  return apply_activation_checkpointing(*model.ptr(), options, is_region);
}

/// Undoes it for every submodule. Returns how many were affected.
REPRISE_API size_t remove_activation_checkpointing(torch::nn::Module& model);

/// Paths of marked submodules that no reprise::call has run yet: after one training step, these are
/// the modules whose checkpointing has had no effect.
REPRISE_API std::vector<std::string> uncalled_marks(torch::nn::Module& model);

namespace detail {

/// The options a module was marked with, noting that it was asked; null if it is not marked.
REPRISE_API std::shared_ptr<const CheckpointOptions> mark_of(const torch::nn::Module& module);

}  // namespace detail

/// Calls `module->forward(args...)`, as a region if apply_activation_checkpointing marked the
/// module.
template <class M, class... Args>
auto call(std::shared_ptr<M> module, Args&&... args) {
  TORCH_CHECK(module != nullptr, "[reprise] call got no module.");
  auto forward = [module](auto&... values) { return module->forward(values...); };
  if (const auto options = detail::mark_of(*module)) {
    return checkpoint(*options, forward, std::forward<Args>(args)...);
  }
  return detail::call_plainly(forward, std::forward<Args>(args)...);
}

template <class M, class... Args>
auto call(const torch::nn::ModuleHolder<M>& module, Args&&... args) {
  return call(module.ptr(), std::forward<Args>(args)...);
}

/// checkpoint_sequential over the children of a torch::nn::Sequential.
REPRISE_API at::Tensor checkpoint_sequential(const CheckpointOptions& options,
                                             const torch::nn::Sequential& modules,
                                             size_t segments,
                                             at::Tensor input);

inline at::Tensor checkpoint_sequential(const torch::nn::Sequential& modules,
                                        size_t segments,
                                        at::Tensor input) {
  return checkpoint_sequential(CheckpointOptions{}, modules, segments, std::move(input));
}

}  // namespace reprise
