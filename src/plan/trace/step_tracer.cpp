#include "plan/trace/step_tracer.h"

#include "checkpoint/frame.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_info.h"
#include "checkpoint/state/draw_log.h"
#include "checkpoint/state/thread_state.h"
#include "plan/measure/op_timer.h"
#include "plan/trace/region_signature.h"
#include "plan/trace/storage_facts.h"
#include "plan/trace/trace_summary.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

namespace reprise::planning {
namespace {

using torch::autograd::AccumulateGrad;

bool is_in_backward() {
  return torch::autograd::get_current_graph_task_id() >= 0;
}

std::optional<detail::GeneratorMark> mark_of_default_generator() {
  return detail::GeneratorMark::of(detail::default_generator(c10::kCPU));
}

/// Adds up the copies that are left when the region's forward has ended.
void note_copies(TracedRegion& region) {
  for (const TracedCopy& copy : region.copies) {
    region.log_bytes += copy.bytes;
  }
  if (region.log_bytes <= 0) {  // the region freed older tensors
    region.log_bytes = 0;
    region.copies.clear();
  }
}

}  // namespace

StepTrace trace_step(const std::function<void()>& step,
                     c10::Device device,
                     const TraceOptions& options) {
  const auto traced = [&] {
    return std::make_shared<StepTracer>(device, nullptr, StepTracer::Effects::Undone, options)
        ->run(step);
  };
  if (!device.is_cpu()) {
    // Libraries allocate workspaces and load kernels on first use, which is not the step's own
    // memory and time. A traced run leaves everything as it was, so it serves as a rehearsal.
    traced();
  }
  return traced();
}

/// What makes the tracer hear of its thread.
struct StepTracer::Listening {
  Listening(const std::shared_ptr<StepTracer>& tracer, Effects effects)
      : regions(detail::ListenerPtr(tracer, static_cast<detail::RegionListener*>(tracer.get()))),
        planning(tracer.get()),
        undoing(effects == Effects::Undone
                    ? std::make_unique<Undoing>(static_cast<detail::WriteListener*>(tracer.get()))
                    : nullptr),
        observing(tracer.get()),
        nodes(std::shared_ptr<NodeListener>(tracer, static_cast<NodeListener*>(tracer.get()))) {}

  struct Undoing {
    explicit Undoing(detail::WriteListener* tracer)
        : listening(tracer, detail::WriteListenerGuard::Others::Listen) {}
    const detail::WriteListenerGuard listening;
    const detail::PrivateDraws drawing;
  };

  const detail::RegionListenerGuard regions;
  const detail::RegionPlannerGuard planning;
  const c10::impl::IncludeDispatchKeyGuard writes{detail::kWriteKey};  // observers need it too
  const std::unique_ptr<Undoing> undoing;
  const detail::OpObserverGuard observing;
  const NodeListenerGuard nodes;
};

StepTracer::StepTracer(c10::Device device, OpTimer* timer, Effects effects, TraceOptions options)
    : effects_(effects),
      options_(std::move(options)),
      timer_(timer),
      clock_(device, timer),
      cuts_(device, trace_, storages_, regions_),
      ops_(trace_, regions_, storages_, cuts_, clock_),
      state_(effects == Effects::Undone ? std::make_unique<UntouchedState>(cuts_.counter())
                                        : nullptr) {}

StepTracer::~StepTracer() = default;

StepTrace StepTracer::run(const std::function<void()>& step) {
  struct Closing {
    explicit Closing(StepTracer& traced) : tracer(traced) {}
    ~Closing() { tracer.close(); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    StepTracer& tracer;
  };
  const Closing closing(*this);
  begin();
  step();
  return end();
}

void StepTracer::close() {
  listening_.reset();
  sums_.reset();
  std::unique_ptr<UntouchedState> state;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    state = std::move(state_);
  }
  // Not under the lock: this locks generators, under whose locks operators are traced.
  state.reset();
  const std::scoped_lock lock(mutex_);
  cuts_.stop();
}

void StepTracer::begin() {
  TORCH_CHECK(!detail::has_region_planner(),
              "[plan] a step cannot be traced while a plan is applied: trace it first.");
  TORCH_CHECK(at::GradMode::is_enabled(),
              "[plan] a step is traced with gradients on: remove the NoGradGuard around it.");
  detail::observe_effects();
  listening_ = std::make_unique<Listening>(shared_from_this(), effects_);
  if (options_.summed) {
    sums_.emplace(
        trace_.device, *options_.summed, [this](int64_t bytes) { gradient_summed(bytes); });
  }
  cuts_.begin();
  begun_ = clock_.mark();
}

StepTrace StepTracer::end() {
  listening_.reset();
  sums_.reset();
  return finish();
}

StepTrace StepTracer::finish() {
  const std::scoped_lock lock(mutex_);
  cuts_.end_work(kNone);
  const size_t now = clock_.mark();
  if (cuts_.phase() == StepPhase::Backward) {
    regions_[cuts_.region()].backward_ended = now;
  }
  clock_.finish();
  TORCH_CHECK(!trace_.regions.empty(),
              "[plan] the traced step ran no region, so there is nothing to plan. Wrap its blocks "
              "in reprise::checkpoint, or enable checkpointing of the model.");
  TORCH_CHECK(nodes_ > 0,
              "[plan] the traced step ran no backward. A step to trace is a forward and its "
              "backward.");
  StepTrace trace = std::move(trace_);
  trace.host = host_of(trace.device);
  TraceSummary(regions_, storages_, clock_, begun_).fill_in(trace);
  return trace;
}

void StepTracer::tell_of_region() const {
  if (options_.on_region) {
    options_.on_region();
  }
}

bool StepTracer::is_running(const detail::Frame& frame, StepPhase phase) const {
  return !is_over_ && cuts_.phase() == phase && regions_[cuts_.region()].id == &frame;
}

detail::OpObserver* StepTracer::forward_begins(const std::shared_ptr<detail::Frame>& frame,
                                               const CheckpointOptions& options,
                                               const std::vector<at::Tensor>& inputs,
                                               detail::OpObserver* recorder) {
  const std::scoped_lock lock(mutex_);
  if (is_over_ || cuts_.is_in_region() || is_in_backward()) {
    cuts_.note_inner_region();
    return recorder;
  }
  tell_of_region();
  cuts_.end_gap();
  const size_t index = trace_.regions.size();
  RegionRecord record{.frame = frame,
                      .id = frame.get(),
                      .inputs = RegionInputs(inputs, storages_),
                      .ops = RegionOps(detail::ThreadState().has_autocast())};
  for (const auto& input : record.inputs.all()) {
    storages_.note_input(input.number, index);
  }
  TracedRegion region;
  region.name = options.name;
  for (const at::Tensor& input : inputs) {
    region.signature.inputs.push_back(shape_of(input));
  }
  region.entry_bytes = cuts_.level();
  region.joinable = std::exchange(joinable_, 0);
  cuts_.enter(StepPhase::Forward, index);
  record.begun = clock_.mark();
  trace_.regions.push_back(std::move(region));
  regions_.push_back(std::move(record));
  return this;
}

void StepTracer::packed(const detail::Frame& frame, const at::Tensor& tensor) {
  const std::scoped_lock lock(mutex_);
  if (!is_running(frame, StepPhase::Forward)) {
    return;
  }
  trace_.regions[cuts_.region()].signature.saved.push_back(shape_of(tensor));
  if (const auto number = storages_.find(tensor)) {
    regions_[cuts_.region()].inputs.note_saved(*number);
    storages_.note_saved(*number, cuts_.region());
  }
}

void StepTracer::forward_ended(const detail::Frame& frame) {
  const std::scoped_lock lock(mutex_);
  if (!is_running(frame, StepPhase::Forward)) {
    return;
  }
  const size_t region = cuts_.region();
  cuts_.end_gap();
  regions_[region].ended = clock_.mark();
  trace_.regions[region].forward_end = trace_.intervals.size() - 1;
  note_copies(trace_.regions[region]);
  storages_.note_forward_ended(region);
  cuts_.enter(StepPhase::Outside, trace_.regions.size());
  trace_.head_bytes = cuts_.level();
}

void StepTracer::recompute_begins(const detail::Frame& frame) {
  const std::scoped_lock lock(mutex_);
  const auto record = std::find_if(regions_.begin(),
                                   regions_.end(),
                                   [&](const RegionRecord& known) { return known.id == &frame; });
  if (is_over_ || record == regions_.end() || cuts_.is_in_region()) {
    return;
  }
  tell_of_region();
  cuts_.end_work(kNone);
  const size_t now = clock_.mark();
  if (cuts_.phase() == StepPhase::Backward) {
    regions_[cuts_.region()].backward_ended = now;
  }
  const auto index = static_cast<size_t>(record - regions_.begin());
  cuts_.enter(StepPhase::Recompute, index);
  record->recompute_begun = now;
  TracedRegion& region = trace_.regions[index];
  region.recompute_begun = trace_.intervals.size();
  region.recompute_entry_bytes = cuts_.level();
  region.is_recomputed = true;
  record->ops.begin_recompute();
}

detail::OpObserver* StepTracer::recompute_runs(const detail::Frame& frame,
                                               detail::OpObserver* replayer) {
  const std::scoped_lock lock(mutex_);
  return is_running(frame, StepPhase::Recompute) ? this : replayer;
}

void StepTracer::recompute_ended(const detail::Frame& frame) {
  const std::scoped_lock lock(mutex_);
  if (!is_running(frame, StepPhase::Recompute)) {
    return;
  }
  cuts_.end_gap();
  regions_[cuts_.region()].recompute_ended = clock_.mark();
  cuts_.enter(StepPhase::Backward, cuts_.region());
}

void StepTracer::call(const c10::OperatorHandle& op,
                      c10::DispatchKeySet below,
                      torch::jit::Stack* stack) {
  const auto call = begin_op(op, detail::arguments_of(op, *stack));
  // A recorded step draws from the default generator itself, and holds its lock while it does.
  const bool watches_draws =
      effects_ == Effects::Undone && op.operator_name().getNamespace() == "aten";
  const auto mark = watches_draws ? mark_of_default_generator() : std::nullopt;
  op.redispatchBoxed(below, stack);
  // LibTorch's own operators draw from the copy.
  const bool others_draw = watches_draws && mark != mark_of_default_generator();
  const auto results =
      c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - op.schema().returns().size());
  if (timer_ != nullptr) {
    timer_->settle(results);
  }
  const std::scoped_lock lock(mutex_);
  if (call && !is_over_) {
    ops_.end(*call, results);
    if (others_draw) {
      state_->note_other_draws();
    }
  }
}

std::optional<OpRecorder::Call> StepTracer::begin_op(const c10::OperatorHandle& op,
                                                     c10::ArrayRef<c10::IValue> arguments) {
  const std::scoped_lock lock(mutex_);
  return is_over_ ? std::nullopt : std::optional(ops_.begin(op, arguments));
}

void StepTracer::before_write(const at::Tensor& target) {
  // Gradients that backward sums in place are the step's own.
  if (is_in_backward() || !target.has_storage()) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (!storages_.find(target)) {
    cuts_.end_gap();
    state_->before_write(target.storage());
    cuts_.refresh_level();
  }
}

std::optional<CheckpointOptions> StepTracer::plan(const CheckpointOptions& asked,
                                                  const std::vector<at::Tensor>& /*inputs*/) {
  const std::scoped_lock lock(mutex_);
  planned_ = trace_.regions.size();
  return asked;
}

std::optional<detail::JoinedRegions> StepTracer::join(
    const std::vector<const CheckpointOptions*>& chain) {
  joinable_ = chain.size() - 1;
  return std::nullopt;
}

void StepTracer::joined_begins(size_t /*index*/, const std::vector<at::Tensor>& /*inputs*/) {
  TORCH_INTERNAL_ASSERT(false, "a tracer joins no regions");
}

void StepTracer::ended(size_t saves) {
  const std::scoped_lock lock(mutex_);
  if (planned_ + 1 != trace_.regions.size()) {
    return;  // a region in a hook of backward
  }
  TracedRegion& region = trace_.regions.back();
  region.signature.saves = saves;
  region.signature.ops = static_cast<size_t>(
      std::count_if(region.ops.begin(), region.ops.end(), [](const TracedOp& op) {
        return op.call_index != kNone;
      }));
}

void StepTracer::node_begins() {
  const std::scoped_lock lock(mutex_);
  if (is_over_) {
    return;
  }
  cuts_.end_gap();
  if (nodes_++ == 0) {
    for (auto& region : regions_) {
      region.inputs.find_private(storages_);
    }
  }
  const auto node = torch::autograd::get_current_node();
  if (const auto* accumulation = dynamic_cast<const AccumulateGrad*>(node.get())) {
    if (state_ != nullptr) {
      state_->before_accumulation(accumulation->variable);
    } else {
      const at::Tensor& leaf = accumulation->variable;
      had_gradient_.emplace(leaf.unsafeGetTensorImpl(), leaf.grad().defined());
    }
  }
}

void StepTracer::gradient_summed(int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (!is_over_) {
    cuts_.end_work(kNone);
    cuts_.set_sum_aside(bytes);
  }
}

bool StepTracer::is_new_gradient(const at::Tensor& leaf) {
  return state_ != nullptr ? !state_->had_gradient(leaf)
                           : !had_gradient_[leaf.unsafeGetTensorImpl()];
}

void StepTracer::node_ended() {
  const std::scoped_lock lock(mutex_);
  if (is_over_) {
    return;
  }
  cuts_.end_work(kNone);
  const auto node = torch::autograd::get_current_node();
  const auto* accumulation = dynamic_cast<const AccumulateGrad*>(node.get());
  if (accumulation != nullptr && !options_.summed) {
    const auto& gradient = accumulation->variable.grad();
    // Where effects last, a gradient that was there is older than the step.
    const bool is_new = is_new_gradient(accumulation->variable);
    if (gradient.defined() && gradient.has_storage() && (is_new || state_ != nullptr)) {
      cuts_.set_gradient_aside(gradient.storage(), is_new);
    }
  }
}

}  // namespace reprise::planning
