#include "checkpoint/ops/op_recorder.h"

#include "checkpoint/offload/group.h"
#include "checkpoint/offload/host_pool.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

/// Some operators return a view of their argument without declaring it (_unsafe_view, in every
/// matrix product with more than two dimensions). Their result gets the argument's version counter,
/// as a view would, so that a later write through either is noticed by both.
void tie_hidden_views(const c10::OperatorHandle& op,
                      const at::Tensor& argument,
                      torch::jit::Stack& results) {
  for (size_t i = results.size() - op.schema().returns().size(); i < results.size(); ++i) {
    if (results[i].isTensor() && results[i].toTensor().defined() &&
        results[i].toTensor().has_storage() && !results[i].toTensor().is_same(argument) &&
        results[i].toTensor().storage().is_alias_of(argument.storage())) {
      results[i].toTensor().unsafeGetTensorImpl()->set_version_counter(
          argument.unsafeGetTensorImpl()->version_counter());
    }
  }
}

/// The generator of a random operator: its argument, or the default of its device.
at::Generator generator_of(c10::ArrayRef<c10::IValue> arguments, c10::Device device) {
  for (const auto& argument : arguments) {
    if (argument.isGenerator()) {
      return argument.toGenerator();
    }
  }
  return default_generator(device);
}

[[noreturn]] void refuse(const c10::OperatorHandle& op,
                         const Policy& policy,
                         const std::string& why) {
  throw CheckpointError(
      c10::str("[reprise] policy ", policy.describe(), " wants ", display_name(op), " ", why));
}

}  // namespace

void ForwardRecorder::run(const c10::OperatorHandle& op,
                          const OpInfo& info,
                          c10::DispatchKeySet below,
                          torch::jit::Stack* stack) {
  if (!info.hides_view) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const at::Tensor argument = arguments_of(op, *stack)[0].toTensor();
  op.redispatchBoxed(below, stack);
  tie_hidden_views(op, argument, *stack);
}

void ForwardRecorder::keep_generator(KeptResult& kept, c10::ArrayRef<c10::IValue> arguments) const {
  const auto generator = generator_of(arguments, kept.device());
  const auto& listed = options_.generators;
  // The state of any other generator would not be restored after the recompute, so it must not be
  // changed.
  const bool is_restored = generator == default_generator(generator.device()) ||
                           std::find(listed.begin(), listed.end(), generator) != listed.end();
  if (options_.preserve_rng_state && is_restored) {
    kept.generator.emplace(generator);
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
                             op.schema().name(), op.schema().overload_name(), info.op_class, {}, 0})
                .first;
  }
  auto& calls = found->second;
  const auto& policy = *recording_.policy_;
  const Decision decision =
      policy.decide({.name = calls.name,
                     .overload = calls.overload,
                     .op_class = info.op_class,
                     .call_index = calls.results.size(),
                     .class_index = class_calls_[static_cast<size_t>(info.op_class)]++,
                     .arguments = arguments_of(op, *stack)});
  calls.results.push_back(nullptr);
  const size_t index = calls.results.size() - 1;
  if (decision == Decision::Recompute) {
    run(op, info, below, stack);
    return;
  }
  ++calls.keep_decisions;
  if (info.is_factory || info.returns_view || info.hides_view) {
    // A factory is cheaper to run again than to keep. A view costs nothing, and must share the
    // storage of its recomputed base, which in-place operators rely on.
    run(op, info, below, stack);
    return;
  }
  if (info.writes_arguments) {
    refuse(op,
           policy,
           "to be kept, but that operator writes its arguments: leaving it out of recompute would "
           "leave them unwritten. Use the out-of-place operator, or Recompute.");
  }
  const std::vector<c10::IValue> arguments = arguments_of(op, *stack).vec();
  run(op, info, below, stack);
  auto kept = std::make_unique<KeptResult>(op, *stack);
  if (info.is_random) {
    keep_generator(*kept, arguments);
  }
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
  const size_t index = calls_[op_id(op)]++;
  const auto found = recording_.calls_.find(op_id(op));
  if (found == recording_.calls_.end() || index >= found->second.results.size() ||
      found->second.results[index] == nullptr) {
    ++recomputed_;
    op.redispatchBoxed(below, stack);
    return;
  }
  const KeptResult& kept = *found->second.results[index];
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
  // Advance the generator as the skipped operator did, if it is restored afterwards. An operator
  // that drew nothing, such as attention without dropout, leaves nothing to advance.
  if (kept.generator && region_.rng && region_.rng->covers(kept.generator->generator())) {
    kept.generator->restore();
  }
  ++replayed_;
}

}  // namespace reprise::detail
