#include "checkpoint/op_recorder.h"

#include "checkpoint/engine_ops.h"
#include "checkpoint/op_info.h"

#include <reprise/options.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                        const torch::jit::Stack& stack) {
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.schema().arguments().size());
}

/// See Note [Numbering of operator calls]. Asked only in regions that begin under autocast; whether
/// it is on cannot be asked here, because autocast switches itself off while it casts.
bool is_cached_cast(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.schema().name() != "aten::_to_copy" || !arguments[0].isTensor()) {
    return false;
  }
  const auto& source = arguments[0].toTensor();
  return source.is_leaf() && source.requires_grad();
}

/// Some operators return their argument's storage without saying so (_unsafe_view, behind every
/// matrix product of more than two dimensions). Their result gets the argument's version counter,
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

/// The generator a random operator drew from: the one it was given, or its device's.
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
  // Any other generator stays as the program left it: nobody would bring its state back after the
  // recompute.
  const bool is_restored = generator == default_generator(generator.device()) ||
                           std::find(listed.begin(), listed.end(), generator) != listed.end();
  if (options_.preserve_rng_state && is_restored) {
    kept.generator.emplace(generator);
  }
}

void ForwardRecorder::call(const c10::OperatorHandle& op,
                           c10::DispatchKeySet below,
                           torch::jit::Stack* stack) {
  if (has_autocast_ && is_cached_cast(op, arguments_of(op, *stack))) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const OpInfo info = op_info(op);  // a copy: the policy may ask for others
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
  switch (decision) {
    case Decision::Recompute:
      run(op, info, below, stack);
      return;
    case Decision::Offload:
    case Decision::Compress:
      refuse(op,
             policy,
             "to be offloaded or compressed, which is not available yet. Use Keep or Recompute.");
    case Decision::Keep:
      break;
  }
  ++calls.keep_decisions;
  if (info.is_factory || info.returns_view || info.hides_view) {
    // A factory is cheaper to run again than to keep. A view costs nothing to make, and only a new
    // one shares its base's storage, which in-place operators rely on.
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
  kept.push_to(*stack);
  // Only where the generator is brought back afterwards. A random operator may have drawn nothing,
  // as attention without dropout does; then there is nothing to catch up with.
  if (kept.generator && region_.rng && region_.rng->covers(kept.generator->generator())) {
    kept.generator->restore();
  }
  ++replayed_;
}

}  // namespace reprise::detail
