// Operators with side effects, which must not happen again.
//
// Note [Operators that run once]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// An effectful operator (register_effectful_op) logs, counts, sends: something that LibTorch does
// not see, so that it cannot be undone. It runs in forward alone. Its results are kept like those
// of a policy, and the recompute gets them without running it; a result that is an argument
// itself, unchanged, is that argument again.
//
// Above autograd the call is numbered (kWriteKey), in forward and in all regions around it. Below
// autograd (kRecordKey, included for this call alone) its kernel is left out, so that a recompute
// builds the same graph around it. What the kernel itself calls is no part of the region. No policy
// sees any of it. A composite operator has no place below autograd: it is left out as a whole, and
// must not compute what needs a gradient.
#pragma once

#include "checkpoint/ops/op_recording.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

/// One call of an effectful operator.
class OnceCall {
 public:
  /// Takes the results from the top of the stack. Throws if they cannot be kept.
  OnceCall(const c10::OperatorHandle& op,
           c10::ArrayRef<c10::IValue> arguments,
           const torch::jit::Stack& stack);

  /// Replaces the arguments on top of the stack by the results.
  void replay(const c10::OperatorHandle& op, torch::jit::Stack& stack) const;

  const void* op;
  KeptResult kept;

 private:
  std::vector<std::optional<size_t>> arguments_;  // by result: the argument that it is
};

/// The calls of a region's forward.
class OnceLog {
 public:
  void add(OnceCall call) { calls_.push_back(std::move(call)); }
  size_t size() const { return calls_.size(); }
  const OnceCall& operator[](size_t index) const { return calls_[index]; }

  /// Call before the storage is written: moves kept results out of it.
  void preserve(const c10::Storage& written);
  bool holds(const c10::StorageImpl* storage) const;
  size_t count_in(const c10::Storage& storage) const;
  /// End of forward: results that the program holds are moved to a copy, as it may write them.
  void finish(bool will_run_again);

  size_t kept_bytes() const;
  /// Bytes in storages that autograd has not saved. A storage counts for one region only.
  size_t unsaved_bytes(const std::function<bool(const c10::StorageImpl*)>& is_saved) const;

 private:
  std::vector<OnceCall> calls_;
};

/// The calls of a recompute, in forward's order.
class OnceReplay {
 public:
  explicit OnceReplay(const OnceLog& log) : log_(log) {}

  /// Called when there is a call after forward's last one.
  std::function<void()> at_end;

  /// The next call. Throws if it is not one of `op`, whose effect would happen again.
  const OnceCall& next(const c10::OperatorHandle& op);
  /// A policy's kept result is replayed, whose operator made so many calls in forward.
  void skip(size_t calls) { next_ += calls; }
  size_t replayed() const { return replayed_; }
  /// How the calls differ from forward's; empty if they do not.
  const std::string& difference() const { return difference_; }

 private:
  friend class OnceLog;
  const OnceLog& log_;
  size_t next_ = 0;
  size_t replayed_ = 0;
  std::string difference_;
};

/// Where the effectful operators of this thread go, in its scope.
class OnceGuard {
 public:
  enum class Graph : uint8_t { Recorded, None };
  /// Forward: they run, and are logged, also by enclosing regions. None: this forward makes no
  /// graph, its recompute does.
  explicit OnceGuard(OnceLog& log, Graph graph = Graph::Recorded);
  /// Recompute: they do not run.
  explicit OnceGuard(OnceReplay& replay);
  ~OnceGuard();
  OnceGuard(const OnceGuard&) = delete;
  OnceGuard& operator=(const OnceGuard&) = delete;

 private:
  friend class OnceRun;
  friend class OnceLog;
  OnceLog* log_ = nullptr;
  OnceReplay* replay_ = nullptr;
  Graph graph_ = Graph::Recorded;
  int graph_task_;
  OnceGuard* outer_;
};

/// Runs or replays an effectful operator.
void run_once(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack);

}  // namespace reprise::detail
