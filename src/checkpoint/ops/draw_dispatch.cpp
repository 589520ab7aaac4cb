// Runs random operators so that their draws are logged or replayed: Note [Each draw is remembered].
#include "checkpoint/hot_thread_local.h"
#include "checkpoint/state/draw_log.h"

#include <reprise/options.h>

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

REPRISE_HOT_THREAD_LOCAL DrawGuard* innermost_draws = nullptr;
thread_local PrivateDraws* private_draws = nullptr;

/// A shared generator that an operator on this thread draws from now, by way of a private one.
struct LentGenerator {
  at::Generator shared;
  at::Generator lent;
  std::unique_lock<std::mutex>* lock;
};
thread_local std::vector<LentGenerator> lent_generators;

/// The device that the operator works on; empty if it takes no tensor.
std::optional<c10::Device> device_of(c10::ArrayRef<c10::IValue> arguments) {
  for (const auto& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined()) {
      return argument.toTensor().device();
    }
  }
  return std::nullopt;
}

/// Fused attention draws for its dropout alone.
bool is_without_dropout(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].name() == "dropout_p") {
      return arguments[i].isDouble() && arguments[i].toDouble() == 0;
    }
  }
  return false;
}

/// Serialises operators that draw from a default generator by themselves.
std::mutex& own_draws_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

/// A random operator that is about to run.
class DrawingCall {
 public:
  DrawingCall(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack)
      : op_(op), below_(below), stack_(stack) {}

  void run(std::optional<size_t> generator);
  /// Calls `visit(log)` for the regions whose forward this is.
  template <class Visit>
  static void for_each_log(const Visit& visit);

 private:
  void run_as_is() { op_.redispatchBoxed(below_, stack_); }
  void run_with(const at::Generator& generator, size_t index) {
    (*stack_)[stack_->size() - op_.schema().arguments().size() + index] = generator;
    run_as_is();
  }
  void run_in_forward(const at::Generator& shared, size_t index);
  void run_in_recompute(DrawReplay& replay, const at::Generator& shared, size_t index);
  void run_own_draw(DrawReplay* replay, const at::Generator& shared);

  const c10::OperatorHandle& op_;
  c10::DispatchKeySet below_;
  torch::jit::Stack* stack_;
};

void DrawingCall::run(std::optional<size_t> index) {
  const DrawGuard* source = innermost_draws;
  while (source != nullptr && source->replay_ == nullptr && !source->is_aside_ &&
         source->outer_ != nullptr) {
    source = source->outer_;
  }
  if (source == nullptr) {
    return run_as_is();
  }
  const auto arguments =
      c10::ArrayRef<c10::IValue>(*stack_).slice(stack_->size() - op_.schema().arguments().size());
  std::optional<at::Generator> given;
  if (index && arguments[*index].isGenerator()) {
    given = arguments[*index].toGenerator();
  }
  const auto device =
      given && given->defined() ? std::optional(given->device()) : device_of(arguments);
  // An operator without a tensor or a generator passes the draw on to one that has a tensor. On the
  // CPU, so does one without an argument for a generator.
  if (!device || !(device->is_cpu() || device->is_cuda()) || (!index && device->is_cpu()) ||
      (given && PrivateGenerator::is_one(*given)) ||
      (!index && is_without_dropout(op_.schema(), arguments))) {
    return run_as_is();
  }
  // See Note [A backward call inside a region]: on a GPU its nodes may run on another thread, where
  // they are not seen.
  if (device->is_cuda() &&
      innermost_draws->graph_task_ != torch::autograd::get_current_graph_task_id()) {
    return run_as_is();
  }
  auto shared = given && given->defined() ? *given : default_generator(*device);
  if (private_draws != nullptr && device->is_cpu() && shared == default_generator(*device)) {
    shared = private_draws->copy_;
  }
  if (device->is_cuda() && !source->is_aside_ && !GeneratorMark::of(shared)) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 op_.schema().name(),
                 " in a region is captured into a CUDA graph, where the state of random generators "
                 "cannot be saved and restored. If the region draws no random numbers (no "
                 "dropout), set CheckpointOptions::preserve_rng_state = false; otherwise do not "
                 "capture it."));
  }
  if (!index) {
    run_own_draw(source->replay_, shared);
  } else if (source->is_aside_) {
    thread_local std::vector<at::Generator> aside;
    const auto found = std::find_if(aside.begin(), aside.end(), [&](const at::Generator& one) {
      return one.device() == *device;
    });
    run_with(found != aside.end() ? *found : aside.emplace_back(shared.clone()), *index);
  } else if (source->replay_ != nullptr) {
    run_in_recompute(*source->replay_, shared, *index);
  } else {
    run_in_forward(shared, *index);
  }
}

template <class Visit>
void DrawingCall::for_each_log(const Visit& visit) {
  for (auto* guard = innermost_draws; guard != nullptr && guard->replay_ == nullptr;
       guard = guard->outer_) {
    if (guard->log_ != nullptr) {
      visit(*guard->log_);
    }
  }
}

void DrawingCall::run_in_forward(const at::Generator& shared, size_t index) {
  for (const auto& known : lent_generators) {
    if (known.shared == shared) {
      return run_with(known.lent, index);  // drawn by the kernel of an operator that drew already
    }
  }
  auto locked = shared;
  std::unique_lock lock(locked.mutex());
  const auto before = GeneratorState::of_locked(shared);
  for_each_log([&](DrawLog& log) { log.add({&op_.schema(), before}); });
  const PrivateGenerator lent(before);
  /// Also after an exception: the operator may have drawn.
  struct GiveBack {
    ~GiveBack() {
      lent_generators.pop_back();
      const auto after = lent.state();
      after.restore_to_locked(shared);
      for_each_log([&](DrawLog& log) { log.drew(shared, after.mark()); });
    }
    const PrivateGenerator& lent;
    const at::Generator& shared;
  };
  lent_generators.push_back({shared, lent.get(), &lock});
  const GiveBack at_end{lent, shared};
  run_with(lent.get(), index);
}

void DrawingCall::run_in_recompute(DrawReplay& replay, const at::Generator& shared, size_t index) {
  const Draw* draw = replay.next(op_);
  if (draw == nullptr) {
    return run_as_is();  // reported when the recompute ends
  }
  for_each_log([&](DrawLog& log) { log.add({&op_.schema(), draw->before}); });
  const PrivateGenerator copy(draw->before);
  run_with(copy.get(), index);
  if (replay.lists(shared)) {
    copy.state().restore_to(shared);
  }
}

/// Note [Operators that draw by themselves]
/// Some CUDA operators (fused attention with dropout, native_dropout) draw from the default
/// generator of their device and take no other. For the recompute that generator has to be in the
/// right state for the moment in which the operator is launched. If another thread draws from it in
/// the same moment, here or in forward, the states do not match: an error, never other numbers.
void DrawingCall::run_own_draw(DrawReplay* replay, const at::Generator& shared) {
  const Draw* draw = replay == nullptr ? nullptr : replay->next_own(op_);
  if (replay != nullptr && draw == nullptr) {
    return run_as_is();  // an operator that it calls draws
  }
  if (draw == nullptr) {
    const auto logged = [] {
      size_t count = 0;
      for_each_log([&count](const DrawLog& log) { count += log.size(); });
      return count;
    };
    const size_t logged_before = logged();
    const GeneratorState before(shared);
    run_as_is();
    const GeneratorState after(shared);
    if (logged() == logged_before) {
      for_each_log([&](DrawLog& log) {
        log.add({&op_.schema(), before, after});
        log.drew(shared, after.mark());
      });
    }
    return;
  }
  if (draw->before == *draw->after) {
    return run_as_is();  // attention without dropout
  }
  const std::scoped_lock lock(own_draws_mutex());
  // Also after an exception: an early stop may end the operator.
  struct RestoreCallers {
    ~RestoreCallers() { callers.restore(); }
    const GeneratorState callers;
  };
  const RestoreCallers at_end{GeneratorState(shared)};
  draw->before.restore();
  run_as_is();
  const GeneratorState reached(shared);
  const bool is_replayed = reached == draw->before;  // a policy kept its result
  if (!is_replayed && !(reached == *draw->after)) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 op_.schema().name(),
                 " drew other random numbers when it was recomputed: another thread drew from the "
                 "default generator of ",
                 shared.device(),
                 " at the same moment. This operator takes no other generator: let the other "
                 "thread use a generator of its own."));
  }
  for_each_log([&](DrawLog& log) { log.add({&op_.schema(), draw->before, *draw->after}); });
}

DrawGuard::DrawGuard(DrawLog* log)
    : log_(log),
      graph_task_(torch::autograd::get_current_graph_task_id()),
      outer_(std::exchange(innermost_draws, this)) {}

DrawGuard::DrawGuard(DrawReplay* replay)
    : replay_(replay),
      graph_task_(torch::autograd::get_current_graph_task_id()),
      outer_(std::exchange(innermost_draws, replay == nullptr ? nullptr : this)) {}

/// Code of the program runs below a random operator (a policy): it may use the generators that are
/// lent to the operator, so they are unlocked. The operator has not drawn yet.
DrawGuard::DrawGuard(From /*aside*/)
    : is_aside_(true),
      graph_task_(torch::autograd::get_current_graph_task_id()),
      outer_(std::exchange(innermost_draws, this)) {
  for (const auto& lent : lent_generators) {
    lent.lock->unlock();
  }
}

DrawGuard::~DrawGuard() {
  innermost_draws = outer_;
  if (!is_aside_) {
    return;
  }
  for (const auto& lent : lent_generators) {
    lent.lock->lock();
    const auto now = GeneratorState::of_locked(lent.shared);
    now.restore_to(lent.lent);
    for (auto* guard = innermost_draws; guard != nullptr && guard->replay_ == nullptr;
         guard = guard->outer_) {
      if (guard->log_ != nullptr) {
        guard->log_->correct_last(now);
      }
    }
  }
}

UnloggedDraws::UnloggedDraws() {
  if (lent_generators.empty()) {  // else they are locked, and the operator that drew them counts
    DrawingCall::for_each_log([](DrawLog& log) { log.begin_others(); });
    unlogged_.emplace(static_cast<DrawReplay*>(nullptr));
  }
}

UnloggedDraws::~UnloggedDraws() {
  if (unlogged_) {
    unlogged_.reset();
    DrawingCall::for_each_log([](DrawLog& log) { log.end_others(); });
  }
}

PrivateDraws::PrivateDraws()
    : copy_(at::detail::createCPUGenerator()), outer_(std::exchange(private_draws, this)) {
  GeneratorState(default_generator(c10::kCPU)).restore_to(copy_);  // clone() takes no lock
}

PrivateDraws::~PrivateDraws() {
  private_draws = outer_;
}

void run_drawing(const c10::OperatorHandle& op,
                 c10::DispatchKeySet below,
                 torch::jit::Stack* stack,
                 std::optional<size_t> generator) {
  DrawingCall(op, below, stack).run(generator);
}

}  // namespace reprise::detail
