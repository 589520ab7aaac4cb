// The reentrant variant: forward builds no graph, and a single node for the whole region runs a
// nested backward call. Its limits are PyTorch's, but exceeding one is an error instead of passing
// silently.
#include "checkpoint/engine.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/reentrant_node.h"
#include "checkpoint/reentrant_outputs.h"
#include "checkpoint/state/content_sample.h"
#include "checkpoint/state/view_history.h"
#include "checkpoint/stats.h"
#include "checkpoint/torch_versions.h"

#include <reprise/autocast.h>
#include <reprise/detail/region.h>

#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace reprise::detail {
namespace {

using torch::autograd::Node;

/// Logs the writes of a forward.
struct ForwardWrites final : WriteListener {
  explicit ForwardWrites(Region& written_region)
      : WriteListener(/*has_grad_mode=*/false), region(written_region) {}
  void before_write(const at::Tensor& target) override {
    region.check_real(target, "a tensor that it writes");
    preserve(target);
    // Grad mode is off only because we turned it off: in the recompute this write will have
    // history.
    const at::AutoGradMode as_in_recompute(true);
    region.tensor_log.before_write(target);
    region.write_log.record(target);
  }
  void after_write() override {}
  void before_kernel_write(const at::Tensor& target) override {
    preserve(target);
    region.write_log.record_kernel_write(target);
  }
  void before_set(const at::Tensor& target) override { region.tensor_log.before_set(target); }
  void before_backward(uint64_t hook_limit) override {
    region.tensor_log.before_backward(hook_limit);
  }
  void before_accumulation(const torch::autograd::edge_list& roots) override {
    region.tensor_log.before_accumulation(roots);
  }
  void hook_added(const at::Tensor& tensor, unsigned number) override {
    if (is_stale(tensor)) {
      // Operators without grad do not ask for its history.
      throw CheckpointError(
          c10::str("[reprise] ",
                   region.label(),
                   " registers a hook on a view whose base was written after an earlier hook was "
                   "registered on it; a reentrant region cannot tell whether it will run. Use "
                   "use_reentrant = false."));
    }
    region.tensor_log.hook_added(tensor, number);
  }
  void preserve(const at::Tensor& written) const {
    if (written.has_storage()) {
      region.once.preserve(written.storage());
    }
  }
  Region& region;
};

bool is_differentiable(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

void check_reentrant_options(const Region& region, const std::vector<at::Tensor>& inputs) {
  const auto refuse = [&region](const char* why) {
    throw CheckpointError(
        c10::str("[reprise] ", region.label(), " with use_reentrant = true: ", why));
  };
  if (region.options.policy) {
    refuse("a policy has no effect in a reentrant region. Use use_reentrant = false.");
  }
  if (region.options.determinism_check == DeterminismCheck::Values) {
    refuse(
        "DeterminismCheck::Values has no effect in a reentrant region. Use use_reentrant = false.");
  }
  const bool has_gradient = std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& input) {
    return input.defined() && input.requires_grad();
  });
  if (!has_gradient) {
    refuse(
        "none of the input tensors requires grad, so no gradient would reach the region and "
        "parameters used inside it would silently get none. Use use_reentrant = false, or make an "
        "input require "
        "grad.");
  }
}

}  // namespace

void refuse_reentrant_result(const std::type_info& type) {
  throw CheckpointError(
      c10::str("[reprise] a reentrant region must return tensors that gradients can come "
               "back to; this one returns ",
               c10::demangle(type.name()),
               ". Use use_reentrant = false, or make its tensors known "
               "(reprise/tensor_fields.h)."));
}

std::vector<at::Tensor> run_reentrant(const CheckpointOptions& options,
                                      std::unique_ptr<RegionBody> body,
                                      std::vector<at::Tensor> inputs,
                                      const std::function<std::vector<at::Tensor>()>& forward) {
  require_engine();
  observe_effects();
  auto region = std::make_unique<Region>(options, std::move(body), inputs);
  check_reentrant_options(*region, inputs);
  std::vector<at::Tensor> outputs;
  try {
    ForwardWrites writes(*region);
    const at::NoGradGuard no_grad;
    const WithoutAutocastCache no_cache;
    const auto users_scope = Region::enter(options.forward_scope);
    const c10::impl::IncludeDispatchKeyGuard observed(kWriteKey);
    const WriteListenerGuard listening(&writes, WriteListenerGuard::Others::Listen);
    const DrawGuard drawing(region->draws ? &*region->draws : nullptr);
    const OnceGuard once(region->once, OnceGuard::Graph::None);
    const ReadGuard reading(&region->reads);
    const auto live = region->enter_live();
    const OpObserverGuard no_observer(nullptr);
    outputs = forward();
  } catch (c10::Error& error) {
    error.add_context("while running " + region->label());
    throw;
  }
  region->complete_forward(/*will_run_again=*/true, [&](const c10::StorageImpl* storage) {
    return region->once.holds(storage);
  });
  region->once.finish(/*will_run_again=*/true);
  // Without a backward of its own, it would never be found out whether the write has a history.
  if (region->write_log.has_outside_writes() &&
      std::none_of(outputs.begin(), outputs.end(), is_differentiable)) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 region->label(),
                 " is reentrant and changed a captured tensor in place, but returns no tensor that "
                 "gradients can come back to: gradients through the captured tensor would be lost. "
                 "Return the new value, or use use_reentrant = false."));
  }
  if (counts_stats()) {
    RegionStats delta;
    delta.entered = 1;
    delta.bytes_kept = region->once.kept_bytes();
    delta.bytes_unsaved = delta.bytes_kept;
    count(options.name, delta);
  }
  auto node = make_node<ReentrantNode>(std::move(region));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  const auto is_shared = have_other_names(outputs, inputs);
  const auto made = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto& output = outputs[i];
    node->output_options.push_back(output.defined() ? output.options() : at::TensorOptions());
    node->output_sizes.push_back(output.defined() ? output.sizes().vec() : std::vector<int64_t>());
    node->output_samples.push_back(output.defined() ? value_sample(output) : std::vector<double>());
    const auto is_it = [&](const at::Tensor& one) { return one.is_same(made[i]); };
    const auto first =
        static_cast<size_t>(std::find_if(made.begin(), made.end(), is_it) - made.begin());
    if (is_differentiable(output) && first < i) {
      // Returned twice: it stays one tensor, whose gradient comes back once.
      output = outputs[first];
      node->add_input_metadata(Node::undefined_input());
    } else if (is_differentiable(output)) {
      // A new tensor, even for an input that is returned unchanged: it gets this node as its
      // history.
      output = detached_output(output, is_shared[i]);
      torch::autograd::set_history(output, node);
    } else {
      node->add_input_metadata(Node::undefined_input());
    }
  }
  return outputs;
}

}  // namespace reprise::detail
