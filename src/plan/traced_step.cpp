// Running a step with a tracer around it, and the nodes of its backward.
#include "plan/step_tracer.h"

#include "checkpoint/engine_ops.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <atomic>

namespace reprise::planning {
namespace {

using torch::autograd::AccumulateGrad;

// A callback is a plain function. RegionListenerGuard lets in one tracer at a time.
std::atomic<StepTracer*> running{nullptr};

/// Tells the tracer of every node of backward, on the threads of the engine too: LibTorch carries
/// these callbacks there.
class NodeWatch {
 public:
  explicit NodeWatch(StepTracer* tracer) {
    running.store(tracer);
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
              running.load()->node_begins();
              return nullptr;
            },
            [](const at::RecordFunction&, at::ObserverContext*) { running.load()->node_ended(); })
            .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~NodeWatch() {
    at::removeCallback(handle_);
    running.store(nullptr);
  }
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

StepTracer::StepTracer(c10::Device device, OpTimer* timer)
    : counter_(device), timer_(timer), clock_(device, timer), state_(counter_) {
  trace_.device = counter_.device();
}

StepTrace StepTracer::run(const std::function<void()>& step) {
  TORCH_CHECK(!detail::has_region_planner(),
              "[plan] a step cannot be traced while a plan is applied: trace it first.");
  TORCH_CHECK(at::GradMode::is_enabled(),
              "[plan] a step is traced with gradients on: remove the NoGradGuard around it.");
  detail::observe_writes();
  {
    const detail::RegionListenerGuard regions(this);
    const detail::RegionPlannerGuard planning(this);
    const c10::impl::IncludeDispatchKeyGuard writes(detail::kWriteKey);
    const detail::WriteListenerGuard listening(this, detail::WriteListenerGuard::Others::Listen);
    const detail::OpObserverGuard observing(this);
    const NodeWatch nodes(this);
    counter_.cut();
    level_ = counter_.now();
    begun_ = clock_.mark();
    step();
  }
  return finish();
}

std::optional<CheckpointOptions> StepTracer::plan(const CheckpointOptions& asked) {
  return asked;
}

std::optional<detail::JoinedRegions> StepTracer::join(
    const std::vector<const CheckpointOptions*>& chain) {
  joinable_ = chain.size() - 1;
  return std::nullopt;
}

void StepTracer::node_begins() {
  const std::scoped_lock lock(mutex_);
  end_gap();
  if (nodes_++ == 0) {
    find_private_inputs();
  }
  const auto node = torch::autograd::get_current_node();
  if (const auto* accumulation = dynamic_cast<const AccumulateGrad*>(node.get())) {
    state_.before_accumulation(accumulation->variable);
  }
}

void StepTracer::node_ended() {
  const std::scoped_lock lock(mutex_);
  end_work(kNone);
  const auto node = torch::autograd::get_current_node();
  if (const auto* accumulation = dynamic_cast<const AccumulateGrad*>(node.get())) {
    const auto& gradient = accumulation->variable.grad();
    if (gradient.defined() && gradient.has_storage()) {
      const int64_t before = counter_.now();
      counter_.set_aside(gradient.storage());
      level_ = counter_.now();
      gradient_bytes_ += state_.had_gradient(accumulation->variable) ? 0 : before - level_;
    }
  }
}

}  // namespace reprise::planning
