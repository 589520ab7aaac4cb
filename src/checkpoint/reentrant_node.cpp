#include "checkpoint/reentrant_node.h"

#include "checkpoint/engine.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/state/content_sample.h"
#include "checkpoint/state/unseen_draws.h"
#include "checkpoint/stats.h"
#include "checkpoint/torch_versions.h"

#include <reprise/autocast.h>

#include <ATen/core/grad_mode.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace reprise::detail {

using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

std::vector<at::Tensor> detach_all(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  leaves.reserve(inputs.size());
  for (const auto& input : inputs) {
    leaves.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad())
                                     : input);
  }
  return leaves;
}

/// Equal but for rounding: operators may compute differently in no-grad mode (LSTM on the CPU).
bool are_near(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kTolerance = 0.02;
  const auto is_near = [](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y)) ||
           std::abs(x - y) <= kTolerance * (1e-3 + std::max(std::abs(x), std::abs(y)));
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_near);
}

}  // namespace

/// Undoes the writes of a recompute.
struct ReentrantNode::Writes final : WriteListener {
  explicit Writes(Region& written_region)
      : region(written_region),
        versions(region.tensor_log),
        undo(region.write_log),
        tensor_undo(region.tensor_log),
        hooks(region.tensor_log) {}
  void before_write(const at::Tensor& target) override {
    region.check_write_again(target, undo);
    preserve(target);
    tensor_undo.rewind_view(target);
    refuse(undo.before_write(target));
  }
  void after_write() override {
    if (tensor_undo.gave_history()) {
      refuse(
          "changed a captured tensor in place and so gave it a history (a grad_fn), which a "
          "reentrant region cannot. Return the new value, or use use_reentrant = false.");
    }
  }
  void before_kernel_write(const at::Tensor& target) override {
    preserve(target);
    refuse(undo.before_kernel_write(target));
  }
  bool adds_hooks_again(const at::Tensor& tensor) override {
    return hooks.is_outside(tensor) ||
           std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
             return input.is_same(tensor);
           });
  }
  unsigned next_hook(const at::Tensor& tensor) override { return hooks.next(tensor); }
  void before_set(const at::Tensor& target) override {
    if (region.tensor_log.has_set(target)) {
      reads->note_set(target);
    }
  }
  uint64_t hook_limit() override {
    region.check_reads(*reads);
    return hooks.next_limit();
  }
  /// The inputs are leaves here. One that has got a history was written with gradients.
  void check_inputs() const {
    for (const auto& input : inputs) {
      if (input.defined() && input.grad_fn()) {
        refuse(
            "changed an input in place and so gave it a history (a grad_fn), which a reentrant "
            "region cannot. Return the new value, or use use_reentrant = false.");
      }
    }
  }
  void preserve(const at::Tensor& written) const {
    if (written.has_storage()) {
      region.once.preserve(written.storage());
    }
  }
  void refuse(const char* why) const {
    if (why != nullptr) {
      throw CheckpointError(c10::str("[reprise] ", region.label(), " ", why));
    }
  }
  Region& region;
  ReadCheck* reads = nullptr;
  variable_list inputs;
  VersionUndo versions;
  WriteUndo undo;
  TensorUndo tensor_undo;
  HookReplay hooks;
};

variable_list ReentrantNode::apply(variable_list&& grads) {
  TORCH_CHECK(region_ != nullptr, torch::autograd::ERR_BACKWARD_TWICE);
  if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
    throw CheckpointError(c10::str("[reprise] ",
                                   region_->label(),
                                   " is reentrant, and a reentrant checkpoint is incompatible with "
                                   "torch::autograd::grad() and with "
                                   "backward(inputs): its inner backward would write the gradients "
                                   "of all parameters. Use backward() "
                                   "without inputs, or use_reentrant = false."));
  }
  if (at::GradMode::is_enabled()) {
    throw CheckpointError(c10::str(
        "[reprise] ",
        region_->label(),
        " is reentrant, and a reentrant checkpoint cannot be differentiated twice: its inner "
        "backward makes no graph, so create_graph = true would silently give wrong second "
        "derivatives. Use use_reentrant = false."));
  }
  try {
    return run_backward(grads);
  } catch (...) {
    rethrow_naming(*region_);
  }
}

std::vector<at::Tensor> ReentrantNode::rerun(std::vector<at::Tensor> inputs, Writes& writes) const {
  // Must come first: it sets the dispatch keys that the other guards add to.
  const ThreadStateGuard state(region_->thread_state);
  const WithoutAutocastCache no_cache;  // Note [Reentrant regions and autocast's cache]
  const RecomputingGuard recomputing(region_->early_stop_in_scope);
  const auto users_scope = Region::enter(region_->options.recompute_scope);
  const c10::impl::IncludeDispatchKeyGuard observed(kWriteKey);
  const WriteListenerGuard listening(&writes, WriteListenerGuard::Others::Pause);
  const RngGuard listed(region_->listed);
  std::optional<DrawReplay> draws;
  if (region_->draws) {
    draws.emplace(*region_->draws, region_->options.generators);
  }
  std::optional<UnseenDraws> unseen;
  if (draws) {
    unseen.emplace(*region_->draws, region_->options.generators);
  }
  const DrawGuard drawing(draws ? &*draws : nullptr);
  OnceReplay once(region_->once);
  const OnceGuard replaying(once);
  ReadCheck reads(region_->reads, region_->write_log, region_->inputs);
  writes.reads = &reads;
  const ReadGuard reading(&reads);
  NodeHooksGuard node_hooks;
  region_->reads.for_each([&](const at::Tensor& read) { node_hooks.watch(read); });
  const HookSourceGuard no_hooks(nullptr);
  const auto live = region_->enter_live();
  const OpObserverGuard no_observer(nullptr);
  auto outputs = region_->body->run(std::move(inputs), /*wants_outputs=*/true);
  if (unseen) {
    unseen->settle();
  }
  region_->check_reads(reads);
  const std::string difference =
      draws && !draws->difference().empty() ? draws->difference() : once.difference();
  if (!difference.empty()) {
    throw CheckpointError(
        c10::str("[reprise] ", region_->label(), " cannot be recomputed: ", difference, "."));
  }
  if (counts_stats()) {
    RegionStats delta;
    delta.ops_replayed = once.replayed();
    count(region_->options.name, delta);
  }
  return outputs;
}

variable_list ReentrantNode::run_backward(const variable_list& grads) {
  const auto start = std::chrono::steady_clock::now();
  region_->check_globals();
  variable_list inputs;
  variable_list outputs;
  const GraphMark mark;
  {
    Writes writes(*region_);
    region_->check_inputs();
    inputs = detach_all(region_->inputs.unpack());
    writes.inputs = inputs;
    outputs = rerun(inputs, writes);
    writes.check_inputs();
    writes.undo.put_back();
  }
  if (counts_stats()) {
    RegionStats delta;
    delta.recomputed = 1;
    delta.recompute_time = std::chrono::steady_clock::now() - start;
    count(region_->options.name, delta);
  }
  check_outputs(outputs);

  variable_list differentiable;
  // Outputs that the loss does not use have an undefined gradient, which means zero.
  variable_list roots;
  variable_list root_grads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) {
      continue;
    }
    differentiable.push_back(outputs[i]);
    if (grads[i].defined()) {
      roots.push_back(outputs[i]);
      root_grads.push_back(grads[i]);
    }
  }
  if (differentiable.empty()) {
    throw CheckpointError(c10::str("[reprise] none of the outputs of ",
                                   region_->label(),
                                   " has requires_grad = true when it is run again, so this "
                                   "checkpoint is not necessary. Call the "
                                   "function directly."));
  }
  check_captures(differentiable, mark);
  if (!roots.empty()) {
    torch::autograd::backward(roots, root_grads);
  }
  variable_list input_grads;
  for (const auto& input : inputs) {
    input_grads.push_back(input.defined() && input.requires_grad() ? input.grad() : at::Tensor());
  }
  return input_grads;
}

void ReentrantNode::check_outputs(const std::vector<at::Tensor>& outputs) const {
  if (region_->options.determinism_check == DeterminismCheck::None &&
      outputs.size() == output_sizes.size()) {
    return;
  }
  bool is_same = outputs.size() == output_sizes.size();
  for (size_t i = 0; is_same && i < outputs.size(); ++i) {
    is_same = !outputs[i].defined() ||
              (outputs[i].sizes() == at::IntArrayRef(output_sizes[i]) &&
               outputs[i].scalar_type() == c10::typeMetaToScalarType(output_options[i].dtype()) &&
               outputs[i].device() == output_options[i].device());
  }
  if (is_same && region_->options.determinism_check != DeterminismCheck::None) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].defined() && !are_near(output_samples[i], value_sample(outputs[i]))) {
        throw CheckpointError(c10::str("[reprise] ",
                                       region_->label(),
                                       " did different work when it was recomputed: output #",
                                       i,
                                       " came back with different values. The callable must "
                                       "compute the same from the same arguments."));
      }
    }
  }
  if (!is_same) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 region_->label(),
                 " returned different tensors when it was recomputed: their number, shape, "
                 "dtype or device differs from forward's. The callable must compute the "
                 "same from the same arguments."));
  }
}

/// Note [Captured tensors in reentrant regions]
/// Only arguments get gradients through the node. A captured tensor with history would get its
/// gradient in the inner backward, which would run (and free) a part of the outer graph that the
/// outer backward still has to run. PyTorch does not check this; we do.
void ReentrantNode::check_captures(const variable_list& roots, const GraphMark& mark) const {
  std::vector<Node*> open;
  ska::flat_hash_set<Node*> seen;
  const auto push = [&](const NodePtr& node) {
    if (node && seen.insert(node.get()).second) {
      open.push_back(node.get());
    }
  };
  for (const auto& root : roots) {
    push(root.grad_fn());
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (mark.is_older(*node)) {
      if (dynamic_cast<torch::autograd::AccumulateGrad*>(node) != nullptr) {
        continue;
      }
      throw CheckpointError(
          c10::str("[reprise] ",
                   region_->label(),
                   " is reentrant and uses a captured tensor that requires grad and is not a "
                   "leaf (made by ",
                   node->name(),
                   "). Pass it as an argument, or use use_reentrant = false."));
    }
    for (const auto& edge : node->next_edges()) {
      push(edge.function);
    }
  }
}

}  // namespace reprise::detail
