// Runs or replays effectful operators: Note [Operators that run once].
#include "checkpoint/engine.h"
#include "checkpoint/hot_thread_local.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_info.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/state/draw_log.h"
#include "checkpoint/state/once_log.h"
#include "checkpoint/state/read_log.h"
#include "checkpoint/state/write_listener.h"

#include <reprise/options.h>

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace reprise::detail {
namespace {

REPRISE_HOT_THREAD_LOCAL OnceGuard* innermost_once = nullptr;

/// In its scope, what operators do is no part of a region.
class NoPartOfARegion {
 public:
  NoPartOfARegion() : once_(std::exchange(innermost_once, nullptr)) {}
  ~NoPartOfARegion() { innermost_once = once_; }
  NoPartOfARegion(const NoPartOfARegion&) = delete;
  NoPartOfARegion& operator=(const NoPartOfARegion&) = delete;

 private:
  OnceGuard* once_;
  const HookSourceGuard saves_{nullptr};
  const WriteListenerGuard writes_{nullptr, WriteListenerGuard::Others::Pause};
  const ReadGuard reads_{static_cast<ReadLog*>(nullptr)};
  const UnloggedDraws draws_;
};

/// Whether the operator has kernels above autograd alone.
bool runs_above_autograd(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return is_composite(op) && !op.hasKernelForDispatchKey(DispatchKey::Autograd) &&
         !op.hasKernelForDispatchKey(DispatchKey::AutogradCPU) &&
         !op.hasKernelForDispatchKey(DispatchKey::AutogradCUDA);
}

[[noreturn]] void refuse_once(const c10::OperatorHandle& op, const std::string& why) {
  throw CheckpointError(c10::str("[reprise] the effectful operator ", display_name(op), " ", why));
}

}  // namespace

/// One call. Observes itself below autograd.
class OnceRun final : public OpObserver {
 public:
  OnceRun(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack)
      : op_(op), below_(below), stack_(stack), outer_(std::exchange(innermost, this)) {}
  ~OnceRun() { innermost = outer_; }
  OnceRun(const OnceRun&) = delete;
  OnceRun& operator=(const OnceRun&) = delete;

  void run();
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;

  /// Whether a kernel for autograd calls its operator again, below autograd.
  static bool is_running(const c10::OperatorHandle& op) {
    return innermost != nullptr && !innermost->is_done_ && op_id(innermost->op_) == op_id(op);
  }

 private:
  void run_kernel(c10::DispatchKeySet below, torch::jit::Stack* stack);
  void check_whole(c10::ArrayRef<c10::IValue> arguments) const;
  template <class Visit>
  static void for_each_log(const Visit& visit) {
    for (auto* guard = innermost_once; guard != nullptr && guard->replay_ == nullptr;
         guard = guard->outer_) {
      visit(*guard->log_);
    }
  }

  const c10::OperatorHandle& op_;
  c10::DispatchKeySet below_;
  torch::jit::Stack* stack_;
  bool is_done_ = false;
  OnceRun* outer_;
  static REPRISE_HOT_THREAD_LOCAL OnceRun* innermost;
};

REPRISE_HOT_THREAD_LOCAL OnceRun* OnceRun::innermost = nullptr;

void OnceRun::run() {
  // Its nodes may run on another thread, where they are not seen.
  if (innermost_once->graph_task_ != torch::autograd::get_current_graph_task_id()) {
    refuse_once(op_,
                "runs in a backward call inside a region, which the recompute repeats. Call "
                "backward outside of the region.");
  }
  if (runs_above_autograd(op_)) {
    const torch::jit::Stack arguments(arguments_of(op_, *stack_).vec());
    run_kernel(below_, stack_);
    check_whole(arguments);
    return;
  }
  const OpObserverGuard observing(this);
  op_.redispatchBoxed(below_.add(kRecordKey), stack_);
  if (!is_done_) {
    refuse_once(op_,
                "has a kernel for autograd that does not call the operator itself below autograd "
                "(AutoDispatchBelowADInplaceOrView), so that it cannot be left out of a recompute. "
                "Register the operator that the kernel calls.");
  }
}

void OnceRun::call(const c10::OperatorHandle& op,
                   c10::DispatchKeySet below,
                   torch::jit::Stack* stack) {
  if (op_id(op) == op_id(op_) && !is_done_) {
    run_kernel(below, stack);
  } else {
    op.redispatchBoxed(below, stack);
  }
}

void OnceRun::run_kernel(c10::DispatchKeySet below, torch::jit::Stack* stack) {
  is_done_ = true;
  const OnceGuard* source = innermost_once;
  while (source->replay_ == nullptr && source->outer_ != nullptr) {
    source = source->outer_;
  }
  if (source->replay_ != nullptr) {
    const OnceCall& call = source->replay_->next(op_);
    call.replay(op_, *stack);
    for_each_log([&call](OnceLog& log) { log.add(call); });
    return;
  }
  const torch::jit::Stack arguments(arguments_of(op_, *stack).vec());
  {
    const NoPartOfARegion guard;
    op_.redispatchBoxed(below, stack);
  }
  const OnceCall call(op_, arguments, *stack);
  for_each_log([&call](OnceLog& log) { log.add(call); });
}

/// Also in a reentrant region, whose forward makes no graph.
void OnceRun::check_whole(c10::ArrayRef<c10::IValue> arguments) const {
  const bool is_without_graph = innermost_once->graph_ == OnceGuard::Graph::None;
  const auto requires_grad = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad();
  };
  for (size_t i = stack_->size() - op_.schema().returns().size(); i < stack_->size(); ++i) {
    const auto is_argument = [&](const c10::IValue& argument) {
      return argument.isTensor() && argument.is((*stack_)[i]);
    };
    if (std::any_of(arguments.begin(), arguments.end(), is_argument)) {
      continue;
    }
    const auto& result = (*stack_)[i];
    const bool may_be_lost = is_without_graph && result.isTensor() && result.toTensor().defined() &&
                             result.toTensor().is_floating_point();
    if (requires_grad(result) || may_be_lost) {
      refuse_once(
          op_,
          "is a composite operator whose result may need a gradient: what it computes and what "
          "it does besides cannot be told apart. Give it kernels for devices and for autograd.");
    }
  }
}

OnceGuard::OnceGuard(OnceLog& log, Graph graph)
    : log_(&log),
      graph_(graph),
      graph_task_(torch::autograd::get_current_graph_task_id()),
      outer_(std::exchange(innermost_once, this)) {}

OnceGuard::OnceGuard(OnceReplay& replay)
    : replay_(&replay),
      graph_task_(torch::autograd::get_current_graph_task_id()),
      outer_(std::exchange(innermost_once, this)) {}

OnceGuard::~OnceGuard() {
  innermost_once = outer_;
}

void OnceLog::finish(bool will_run_again) {
  if (!will_run_again) {
    calls_.clear();
    return;
  }
  std::set<c10::StorageImpl*> kept;
  for (const auto& call : calls_) {
    call.kept.for_each_storage(
        [&](const c10::Storage& storage) { kept.insert(storage.unsafeGetStorageImpl()); });
  }
  for (auto* const impl : kept) {
    const c10::Storage storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl));
    size_t own = 1 + count_in(storage);
    for (auto* guard = innermost_once; guard != nullptr; guard = guard->outer_) {
      own += (guard->log_ != nullptr ? *guard->log_ : guard->replay_->log_).count_in(storage);
    }
    if (storage.use_count() > own) {
      preserve(storage);
    }
  }
}

void run_once(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  if (innermost_once == nullptr || OnceRun::is_running(op)) {
    op.redispatchBoxed(below, stack);
  } else {
    OnceRun(op, below, stack).run();
  }
}

}  // namespace reprise::detail
