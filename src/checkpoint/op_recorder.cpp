#include "checkpoint/op_recorder.h"

#include "checkpoint/engine_ops.h"
#include "checkpoint/op_info.h"

#include <reprise/options.h>

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <utility>

namespace reprise::detail {
namespace {

thread_local OpObserver* top_observer = nullptr;

void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordKey);
  // Operators that kernels call inside themselves belong to the call we see here.
  const c10::impl::ExcludeDispatchKeyGuard inner_calls(kRecordKey);
  if (top_observer == nullptr) {
    // The key came along to a thread of the autograd engine, our observer did not.
    op.redispatchBoxed(below, stack);
  } else {
    top_observer->call(op, below, stack);
  }
}

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

at::Tensor alias_of(const at::Tensor& tensor, const c10::VariableVersion& version_counter) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      version_counter, /*allow_tensor_metadata_change=*/true));
}

/// `value` with every tensor replaced by `replace(tensor)`.
template <class Replace>
c10::IValue map_tensors(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? c10::IValue(replace(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorList()) {
      list.push_back(tensor.defined() ? replace(tensor) : tensor);
    }
    return list;
  }
  return value;
}

c10::Storage copy_storage(const c10::Storage& storage) {
  const EngineOpsGuard guard;
  auto bytes = at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte));
  bytes.set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
  return bytes.clone().storage();
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
at::Generator generator_of(c10::ArrayRef<c10::IValue> arguments,
                           const std::vector<KeptResult::Tensor>& results) {
  for (const auto& argument : arguments) {
    if (argument.isGenerator()) {
      return argument.toGenerator();
    }
  }
  return default_generator(results.empty() ? c10::Device(c10::kCPU)
                                           : results.front().alias.device());
}

[[noreturn]] void refuse(const c10::OperatorHandle& op,
                         const Policy& policy,
                         const std::string& why) {
  throw CheckpointError(
      c10::str("[reprise] policy ", policy.describe(), " wants ", display_name(op), " ", why));
}

}  // namespace

OpObserverGuard::OpObserverGuard(OpObserver* observer)
    : previous_(std::exchange(top_observer, observer)) {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ =
      observer == nullptr ? keys.included_.remove(kRecordKey) : keys.included_.add(kRecordKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

OpObserverGuard::~OpObserverGuard() {
  top_observer = previous_;
}

KeptResult::KeptResult(const c10::OperatorHandle& op, const torch::jit::Stack& results) {
  const size_t count = op.schema().returns().size();
  for (size_t i = results.size() - count; i < results.size(); ++i) {
    values.push_back(map_tensors(results[i], [&](const at::Tensor& tensor) {
      const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
      tensors.push_back({alias_of(tensor, counter), counter.current_version()});
      return tensors.back().alias;
    }));
  }
}

bool KeptResult::shares(const c10::Storage& storage) const {
  return std::any_of(tensors.begin(), tensors.end(), [&storage](const Tensor& tensor) {
    return tensor.alias.has_storage() && tensor.alias.storage().is_alias_of(storage);
  });
}

void KeptResult::move_to(const c10::Storage& from, const c10::Storage& copy) {
  const EngineOpsGuard guard;
  for (auto& tensor : tensors) {
    if (tensor.alias.has_storage() && tensor.alias.storage().is_alias_of(from)) {
      auto moved = at::empty({0}, tensor.alias.options());
      moved.set_(copy, tensor.alias.storage_offset(), tensor.alias.sizes(), tensor.alias.strides());
      tensor = {moved, static_cast<uint32_t>(moved._version())};
    }
  }
  // The values hold the same aliases in the same order.
  size_t next = 0;
  for (auto& value : values) {
    value = map_tensors(value, [&](const at::Tensor&) { return tensors[next++].alias; });
  }
}

size_t KeptResult::bytes() const {
  size_t total = 0;
  std::set<const void*> seen;
  for (const auto& tensor : tensors) {
    if (tensor.alias.has_storage() &&
        seen.insert(tensor.alias.storage().unsafeGetStorageImpl()).second) {
      total += tensor.alias.storage().nbytes();
    }
  }
  return total;
}

void OpRecording::preserve(const at::Tensor& target) {
  const c10::Storage& written = target.storage();
  std::optional<c10::Storage> copy;
  for (auto& [id, calls] : calls_) {
    for (auto& result : calls.results) {
      if (result != nullptr && result->shares(written)) {
        if (!copy) {
          copy = copy_storage(written);
        }
        result->move_to(written, *copy);
      }
    }
  }
}

void OpRecording::verify() const {
  std::vector<KeptOp> kept;
  for (const auto& [id, calls] : calls_) {
    if (calls.keep_decisions > 0) {
      kept.push_back({calls.name, calls.overload, calls.op_class, calls.keep_decisions});
    }
  }
  policy_->verify(kept);
}

size_t OpRecording::kept_bytes() const {
  size_t total = 0;
  for (const auto& [id, calls] : calls_) {
    for (const auto& result : calls.results) {
      total += result != nullptr ? result->bytes() : 0;
    }
  }
  return total;
}

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
  const auto generator = generator_of(arguments, kept.tensors);
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
  const auto& info = op_info(op);
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
           "leave "
           "them unwritten. Use the out-of-place operator, or Recompute.");
  }
  const std::vector<c10::IValue> arguments = arguments_of(op, *stack).vec();
  run(op, info, below, stack);
  auto kept = std::make_unique<KeptResult>(op, *stack);
  if (info.is_random) {
    keep_generator(*kept, arguments);
  }
  // Looked up again: the kernel may have run a region of its own.
  recording_.calls_.find(op_id(op))->second.results[index] = std::move(kept);
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
  for (const auto& tensor : kept.tensors) {
    if (tensor.alias.unsafeGetTensorImpl()->version_counter().current_version() != tensor.version) {
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
  }
  torch::jit::drop(*stack, op.schema().arguments().size());
  for (const auto& value : kept.values) {
    stack->push_back(map_tensors(value, [](const at::Tensor& tensor) {
      // A new tensor each time: autograd writes its history into it.
      return alias_of(tensor, tensor.unsafeGetTensorImpl()->version_counter());
    }));
  }
  // Only where the generator is brought back afterwards. A random operator may have drawn nothing,
  // as attention without dropout does; then there is nothing to catch up with.
  if (kept.generator && region_.rng && region_.rng->covers(kept.generator->generator())) {
    kept.generator->restore();
  }
  ++replayed_;
}

}  // namespace reprise::detail

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reprise::detail::observe>());
}
