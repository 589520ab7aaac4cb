// The reentrant variant: forward builds no graph, and a single node for the whole region runs a
// nested backward call. Its limits are PyTorch's, but exceeding one is an error instead of passing
// silently.
#include <reprise/detail/region.h>

#include "checkpoint/engine.h"
#include "checkpoint/graph_mark.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/region.h"
#include "checkpoint/state/content_sample.h"
#include "checkpoint/state/unseen_draws.h"
#include "checkpoint/stats.h"

#include <reprise/autocast.h>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <unordered_set>
#include <utility>

namespace reprise::detail {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// Logs the writes of a forward.
struct ForwardWrites final : WriteListener {
  explicit ForwardWrites(Region& written_region)
      : WriteListener(/*has_grad_mode=*/false), region(written_region) {}
  void before_write(const at::Tensor& target) override {
    // Grad mode is off only because we turned it off: in the recompute this write will have
    // history.
    const at::AutoGradMode as_in_recompute(true);
    region.tensor_log.before_write(target);
    region.write_log.record(target);
  }
  void after_write() override {}
  void before_kernel_write(const at::Tensor& target) override {
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
    region.tensor_log.hook_added(tensor, number);
  }
  Region& region;
};

/// Undoes the writes of a recompute.
struct RecomputeWrites final : WriteListener {
  explicit RecomputeWrites(const Region& written_region)
      : region(written_region),
        undo(region.write_log),
        tensor_undo(region.tensor_log),
        hooks(region.tensor_log) {}
  void before_write(const at::Tensor& target) override {
    region.check_write_again(target);
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
    refuse(undo.before_kernel_write(target));
  }
  bool adds_hooks_again(const at::Tensor& tensor) override {
    return hooks.is_outside(tensor) ||
           std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
             return input.is_same(tensor);
           });
  }
  unsigned next_hook(const at::Tensor& tensor) override { return hooks.next(tensor); }
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
  void refuse(const char* why) const {
    if (why != nullptr) {
      throw CheckpointError(c10::str("[reprise] ", region.label(), " ", why));
    }
  }
  const Region& region;
  const ReadCheck* reads = nullptr;
  variable_list inputs;
  WriteUndo undo;
  TensorUndo tensor_undo;
  HookReplay hooks;
};

// Note [Reentrant regions and autocast's cache]
// Autocast caches the casts of parameters, together with their autograd history. A cast made in the
// no-grad forward has no history: later users would find it and get no gradient through it. A cast
// made in the outer graph would lead the inner backward out of the region. So reentrant regions
// neither read nor fill the cache. Non-reentrant ones share it, because they drop the graph of
// their recompute.
using NoAutocastCache = WithoutAutocastCache;

bool is_differentiable(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

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

class ReentrantNode final : public Node {
 public:
  explicit ReentrantNode(std::unique_ptr<Region> region) : region_(std::move(region)) {}

  variable_list apply(variable_list&& grads) override;
  void release_variables() override { region_.reset(); }
  std::string name() const override { return "ReentrantCheckpointBackward"; }

  /// Metadata of the outputs in forward, to compare with.
  std::vector<at::TensorOptions> output_options;
  std::vector<std::vector<int64_t>> output_sizes;
  /// See Note [Samples of values].
  std::vector<std::vector<double>> output_samples;

 private:
  variable_list run_backward(const variable_list& grads);
  std::vector<at::Tensor> rerun(std::vector<at::Tensor> inputs, RecomputeWrites& writes) const;
  void check_outputs(const std::vector<at::Tensor>& outputs) const;
  void check_captures(const variable_list& roots, const GraphMark& mark) const;

  std::unique_ptr<Region> region_;
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

std::vector<at::Tensor> ReentrantNode::rerun(std::vector<at::Tensor> inputs,
                                             RecomputeWrites& writes) const {
  // Must come first: it sets the dispatch keys that the other guards add to.
  const ThreadStateGuard state(region_->thread_state);
  const NoAutocastCache no_cache;
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
  ReadCheck reads(region_->reads, region_->write_log);
  writes.reads = &reads;
  const ReadGuard reading(&reads);
  NodeHooksGuard node_hooks;
  region_->reads.for_each([&](const at::Tensor& read) { node_hooks.watch(read); });
  const HookSourceGuard no_hooks(nullptr);
  const OpObserverGuard no_observer(nullptr);
  auto outputs = region_->body->run(std::move(inputs), /*wants_outputs=*/true);
  if (unseen) {
    unseen->settle();
  }
  region_->check_reads(reads);
  if (draws && !draws->difference().empty()) {
    throw CheckpointError(c10::str(
        "[reprise] ", region_->label(), " cannot be recomputed: ", draws->difference(), "."));
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
    RecomputeWrites writes(*region_);
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
  std::unordered_set<Node*> seen;
  const auto push = [&](const std::shared_ptr<Node>& node) {
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
    if (dynamic_cast<torch::autograd::AccumulateGrad*>(node) != nullptr) {
      continue;
    }
    if (mark.is_older(*node)) {
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
    const NoAutocastCache no_cache;
    const auto users_scope = Region::enter(options.forward_scope);
    const c10::impl::IncludeDispatchKeyGuard observed(kWriteKey);
    const WriteListenerGuard listening(&writes, WriteListenerGuard::Others::Listen);
    const DrawGuard drawing(region->draws ? &*region->draws : nullptr);
    const ReadGuard reading(&region->reads);
    const OpObserverGuard no_observer(nullptr);
    outputs = forward();
  } catch (c10::Error& error) {
    error.add_context("while running " + region->label());
    throw;
  }
  region->complete_forward(/*will_run_again=*/true, [](const c10::StorageImpl*) { return false; });
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
    count(options.name, delta);
  }
  auto node = std::make_shared<ReentrantNode>(std::move(region));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  const auto made = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto& output = outputs[i];
    node->output_options.push_back(output.defined() ? output.options() : at::TensorOptions());
    node->output_sizes.push_back(output.defined() ? output.sizes().vec() : std::vector<int64_t>());
    node->output_samples.push_back(output.defined() ? value_sample(output) : std::vector<double>());
    const auto first = std::find_if(
        made.begin(), made.begin() + static_cast<ptrdiff_t>(i), [&](const at::Tensor& earlier) {
          return earlier.is_same(made[i]);
        });
    if (is_differentiable(output) && first != made.begin() + static_cast<ptrdiff_t>(i)) {
      // Returned twice: it stays one tensor, whose gradient comes back once.
      output = outputs[static_cast<size_t>(first - made.begin())];
      node->add_input_metadata(Node::undefined_input());
    } else if (is_differentiable(output)) {
      // A new tensor, even for an input that is returned unchanged: it gets this node as its
      // history.
      output = output.detach();
      torch::autograd::set_history(output, node);
    } else {
      node->add_input_metadata(Node::undefined_input());
    }
  }
  return outputs;
}

}  // namespace reprise::detail
