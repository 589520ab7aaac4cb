// Checkpointing for torch::nn modules.
//
// Module::forward is not virtual, so it cannot be wrapped from outside. There are two ways:
// - A torch::nn::Sequential calls its children through type-erased handles, which are replaced.
// - Any other module is marked, and its caller must write reprise::call(block, x) instead of
//   block(x).
#pragma once

#include <reprise/checkpoint.h>
#include <reprise/export.h>
#include <reprise/options.h>
#include <reprise/torch_fields.h>

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

/// Checkpoints every submodule of `model` (but not `model` itself) for which `is_region` returns
/// true. Options are copied; the name of a region is the module's path unless options.name is set.
/// Returns the number of affected modules. Throws if there are none, and lists the types it saw, or
/// if a match cannot be affected. `is_region` is asked once about every module before the first one
/// is changed, so an error leaves the model as it was.
///
/// Parameters, buffers, names and train/eval state do not change. A child of a Sequential must map
/// one tensor to one tensor; Sequential::at<T>() no longer finds a wrapped child by its type.
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

/// Undoes apply_activation_checkpointing for every submodule. Returns the number of affected
/// modules.
REPRISE_API size_t remove_activation_checkpointing(torch::nn::Module& model);

/// Paths of marked submodules that reprise::call has not run yet. After a training step, these are
/// the modules whose checkpointing has no effect.
REPRISE_API std::vector<std::string> uncalled_marks(torch::nn::Module& model);

namespace detail {

/// The options a module was marked with, or null. Notes that the module was called.
REPRISE_API std::shared_ptr<const CheckpointOptions> mark_of(const torch::nn::Module& module);

}  // namespace detail

/// Calls `module->forward(args...)`, checkpointed if apply_activation_checkpointing marked the
/// module.
template <class M, class... Args>
auto call(std::shared_ptr<M> module, Args&&... args) {
  TORCH_CHECK(module != nullptr, "[reprise] call: the module is null.");
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
