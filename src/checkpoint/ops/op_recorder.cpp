#include "checkpoint/ops/op_recorder.h"

#include "checkpoint/offload/group.h"
#include "checkpoint/offload/host_pool.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/named_ranges.h"
#include "checkpoint/ops/op_effects.h"
#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

using Storages = c10::SmallVector<const c10::StorageImpl*, 8>;

Storages storages_in(c10::ArrayRef<c10::IValue> values) {
  Storages storages;
  const auto add = [&storages](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) {
      storages.push_back(tensor.storage().unsafeGetStorageImpl());
    }
  };
  for (const auto& value : values) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorList()) {
        add(tensor);
      }
    }
  }
  return storages;
}

c10::ArrayRef<c10::IValue> results_of(const c10::OperatorHandle& op,
                                      const torch::jit::Stack& stack) {
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.schema().returns().size());
}

[[noreturn]] void refuse(const c10::OperatorHandle& op,
                         const Policy& policy,
                         const std::string& why) {
  throw CheckpointError(
      c10::str("[reprise] policy ", policy.describe(), " wants ", display_name(op), " ", why));
}

}  // namespace

/// A policy may compute: its own tensors and random numbers are not the region's.
Decision ForwardRecorder::decide(const OpContext& op) const {
  if (only_looks_) {
    return recording_.policy_->decide(op);
  }
  const at::NoGradGuard no_grad;
  const WriteListenerGuard unheard(nullptr, WriteListenerGuard::Others::Pause);
  const ReadGuard unread(static_cast<ReadLog*>(nullptr));
  const DrawGuard aside(DrawGuard::From::Aside);
  return recording_.policy_->decide(op);
}

void ForwardRecorder::run(const c10::OperatorHandle& op,
                          const OpInfo& info,
                          c10::DispatchKeySet below,
                          torch::jit::Stack* stack) const {
  op.redispatchBoxed(below, stack);
  if (!info.writes_arguments) {
    recording_.note_aliases(op, *stack, /*ties=*/info.returns_view || info.ties_version);
  }
}

void ForwardRecorder::offload(const c10::OperatorHandle& op, KeptResult& kept) const {
  if (kept.has_tensors() && !host_pool()->backend->supports(kept.device())) {
    refuse(op,
           *recording_.policy_,
           c10::str("to be offloaded, but its result is on ",
                    kept.device(),
                    ", in host memory already: moving it would free nothing. Use Keep or "
                    "Recompute."));
  }
  kept.offload_stream = current_stream(kept.device());
}

void ForwardRecorder::compress(const c10::OperatorHandle& op, KeptResult& kept) const {
  if (!kept.is_compressible(options_.allow_lossy)) {
    refuse(op,
           *recording_.policy_,
           options_.allow_lossy
               ? "to be compressed, but none of its results is bool or floating. Use Keep or "
                 "Recompute."
               : "to be compressed, but none of its results is bool, and other types lose "
                 "precision. Set CheckpointOptions::allow_lossy, or use Keep or Recompute.");
  }
  recording_.is_lossy_ = recording_.is_lossy_ || kept.has_lossy_form();
  recording_.bytes_before_compression_ += kept.compress(options_.allow_lossy);
  recording_.bytes_not_compressed_ += kept.bytes() - kept.compressed_bytes();
}

void ForwardRecorder::call(const c10::OperatorHandle& op,
                           c10::DispatchKeySet below,
                           torch::jit::Stack* stack) {
  if (has_autocast_ && is_cached_cast(op, arguments_of(op, *stack))) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const OpInfo info = op_info(op);  // a copy, because the policy may invalidate the cache
  auto found = recording_.calls_.find(op_id(op));
  if (found == recording_.calls_.end()) {
    found = recording_.calls_
                .emplace(op_id(op),
                         OpRecording::Calls{
                             op.schema().name(), op.schema().overload_name(), info.op_class, {}})
                .first;
  }
  auto& calls = found->second;
  const auto& policy = *recording_.policy_;
  const auto range = NamedRanges::path();
  OpContext context{.name = calls.name,
                    .overload = calls.overload,
                    .op_class = info.op_class,
                    .call_index = calls.results.size(),
                    .class_index = class_calls_[static_cast<size_t>(info.op_class)]++,
                    .arguments = arguments_of(op, *stack),
                    .range = range,
                    .writes_arguments = info.writes_arguments || !op_effects(op).written.empty()};
  calls.results.push_back(nullptr);
  const size_t index = calls.results.size() - 1;
  const size_t draws_before = draws();
  const size_t once_before = region_.once.size();
  const bool has_run = policy.reads_results();
  std::vector<c10::IValue> arguments;  // the operator takes those on the stack
  if (has_run) {
    arguments = context.arguments.vec();
    run(op, info, below, stack);
    context.arguments = arguments;
    context.results = results_of(op, *stack);
  }
  const Decision decision = decide(context);
  const auto run_once = [&] {
    if (!has_run) {
      run(op, info, below, stack);
    }
  };
  if (decision == Decision::Recompute) {
    run_once();
    return;
  }
  ++calls.keep_decisions;
  if (!range.empty() &&
      std::find(calls.ranges.begin(), calls.ranges.end(), range) == calls.ranges.end()) {
    calls.ranges.emplace_back(range);
  }
  if (info.is_factory || info.returns_view || info.hides_view) {
    // A factory is cheaper to run again than to keep. A view costs nothing, and must share the
    // storage of its recomputed base, which in-place operators rely on.
    run_once();
    return;
  }
  if (info.writes_arguments) {
    refuse(op,
           policy,
           "to be kept, but that operator writes its arguments: leaving it out of recompute would "
           "leave them unwritten. Use the out-of-place operator, or Recompute.");
  }
  const auto taken = storages_in(context.arguments);
  run_once();
  const auto made = storages_in(results_of(op, *stack));
  if (std::find_first_of(made.begin(), made.end(), taken.begin(), taken.end()) != made.end()) {
    return;  // a view in fact, although the operator does not declare it
  }
  auto kept = std::make_unique<KeptResult>(op, *stack);
  kept->draws = draws() - draws_before;
  kept->once_calls = region_.once.size() - once_before;
  if (decision == Decision::Offload) {
    if (is_recomputed_) {
      return;  // forward's run of this region has it on the host; this run is dropped soon
    }
    offload(op, *kept);
  } else if (decision == Decision::Compress) {
    compress(op, *kept);
  }
  calls.results[index] = std::move(kept);
}

void Replayer::call(const c10::OperatorHandle& op,
                    c10::DispatchKeySet below,
                    torch::jit::Stack* stack) {
  if (has_autocast_ && is_cached_cast(op, arguments_of(op, *stack))) {
    op.redispatchBoxed(below, stack);
    return;
  }
  auto calls = calls_.find(op_id(op));
  if (calls == calls_.end()) {
    const auto found = recording_.calls_.find(op_id(op));
    const auto* forward = found == recording_.calls_.end() ? nullptr : &found->second.results;
    calls = calls_.emplace(op_id(op), Calls{forward}).first;
  }
  const size_t index = calls->second.count++;
  const auto* results = calls->second.forward;
  if (results == nullptr || index >= results->size() || (*results)[index] == nullptr) {
    ++recomputed_;
    op.redispatchBoxed(below, stack);
    return;
  }
  const KeptResult& kept = *(*results)[index];
  if (!kept.is_intact()) {
    throw CheckpointError(
        c10::str("[reprise] the kept result of ",
                 display_name(op),
                 " (call #",
                 index,
                 " in ",
                 region_.label(),
                 ") was changed in place after it was kept, so it cannot be replayed. Change a "
                 "clone, or let policy ",
                 recording_.policy().describe(),
                 " recompute this operator."));
  }
  torch::jit::drop(*stack, op.schema().arguments().size());
  kept.push_to(*stack, recording_.offload_group_.get());
  if (draws_ != nullptr) {
    draws_->skip(kept.draws);
  }
  once_.skip(kept.once_calls);
  ++replayed_;
}

}  // namespace reprise::detail
