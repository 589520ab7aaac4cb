// Operators of a traced step: which they are, what they make, what they write.
#include "plan/step_tracer.h"

#include "checkpoint/op_info.h"
#include "plan/op_timer.h"
#include "plan/storage_facts.h"

#include <algorithm>

namespace reprise::planning {
namespace {

template <class Visit>
void for_each_tensor_of(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      visit(tensor.value_or(at::Tensor()));
    }
  }
}

bool has_bytes(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage();
}

}  // namespace

void StepTracer::call(const c10::OperatorHandle& op,
                      c10::DispatchKeySet below,
                      torch::jit::Stack* stack) {
  const OpCall call = begin_op(op, detail::arguments_of(op, *stack));
  op.redispatchBoxed(below, stack);
  const auto results =
      c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - op.schema().returns().size());
  if (timer_ != nullptr) {
    timer_->settle(results);
  }
  end_op(call, results);
}

StepTracer::OpCall StepTracer::begin_op(const c10::OperatorHandle& op,
                                        c10::ArrayRef<c10::IValue> arguments) {
  const std::scoped_lock lock(mutex_);
  end_gap();
  OpCall call;
  for (const auto& argument : arguments) {
    for_each_tensor_of(argument, [&](const at::Tensor& tensor) {
      if (has_bytes(tensor)) {
        call.arguments.push_back(tensor.storage().unsafeGetStorageImpl());
      }
    });
  }
  if (is_in_region()) {
    call.op = number_op(op, arguments);
  }
  note_writes(op, arguments);
  if (is_timed(call)) {
    call.begun = clock_.mark();  // last, so that only the call itself is timed
  }
  return call;
}

bool StepTracer::is_timed(const OpCall& call) const {
  return call.op != kNone && phase_ == StepPhase::Forward;
}

/// The operator's place in the region: a new one in forward, that of the same call in recompute.
size_t StepTracer::number_op(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  auto& watch = watches_[region_];
  auto& region = trace_.regions[region_];
  const bool is_cast = watch.has_autocast && detail::is_cached_cast(op, arguments);
  // Casts are counted by themselves, so that they do not shift what policies count.
  const void* id = is_cast ? nullptr : detail::op_id(op);
  const size_t call = watch.calls[id]++;
  if (phase_ == StepPhase::Recompute) {
    const auto found = watch.op_of_call.find({id, call});
    if (found == watch.op_of_call.end()) {
      return kNone;  // a cast that forward found in autocast's cache
    }
    region.ops[found->second].is_rerun = true;
    region.rerun_ops = std::max(region.rerun_ops, found->second + 1);
    return found->second;
  }
  const auto& info = detail::op_info(op);
  TracedOp traced;
  traced.name = op.schema().name();
  traced.overload = op.schema().overload_name();
  traced.op_class = info.op_class;
  traced.call_index = is_cast ? kNone : call;
  traced.can_keep = !is_cast && !info.is_factory && !info.returns_view && !info.hides_view &&
                    !info.writes_arguments;
  watch.op_of_call[{id, call}] = region.ops.size();
  watch.made.emplace_back();
  watch.raw_bytes.push_back(0);
  watch.op_times.emplace_back();
  region.ops.push_back(std::move(traced));
  return region.ops.size() - 1;
}

void StepTracer::note_writes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& schema = op.schema();
  if (!schema.is_mutable()) {
    return;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      continue;
    }
    for_each_tensor_of(arguments[i], [&](const at::Tensor& tensor) {
      const auto number = ledger_.find(tensor);
      if (number && roles_[*number].storage != kNone) {
        auto& storage = trace_.storages[roles_[*number].storage];
        auto& first = roles_[*number].is_remade ? storage.rewritten : storage.written;
        first = std::min(first, trace_.intervals.size());
      }
    });
  }
}

void StepTracer::end_op(const OpCall& call, c10::ArrayRef<c10::IValue> results) {
  const std::scoped_lock lock(mutex_);
  if (is_timed(call)) {
    watches_[region_].op_times[call.op] = {call.begun, clock_.mark()};
  }
  const int64_t peak = end_work(call.op);
  if (is_timed(call)) {
    trace_.regions[region_].ops[call.op].workspace_bytes = peak - level_;
  }
  size_t nth = 0;
  for (const auto& result : results) {
    for_each_tensor_of(result, [&](const at::Tensor& tensor) {
      const bool is_new =
          has_bytes(tensor) && !ledger_.find(tensor) &&
          std::find(call.arguments.begin(),
                    call.arguments.end(),
                    tensor.storage().unsafeGetStorageImpl()) == call.arguments.end();
      if (is_new) {
        note_new_storage(tensor, call.op, nth++);
      }
    });
  }
}

void StepTracer::note_new_storage(const at::Tensor& tensor, size_t op, size_t nth) {
  const size_t interval = trace_.intervals.size() - 1;  // that of the operator
  ledger_.add(tensor);
  Role role;
  role.bytes = counted_bytes(tensor.storage(), counter_.device());
  role.made = interval;
  if (op != kNone && phase_ == StepPhase::Forward) {
    role.storage = trace_.storages.size();
    trace_.storages.push_back({.region = region_,
                               .op = op,
                               .bytes = role.bytes,
                               .host_bytes = host_bytes_of(tensor),
                               .compressed = form_of(tensor, counter_.device()),
                               .made = interval});
    auto& watch = watches_[region_];
    watch.made[op].push_back(role.storage);
    watch.raw_bytes[op] += tensor.storage().nbytes();
    trace_.regions[region_].ops[op].bytes += role.bytes;
  } else if (op != kNone && nth < watches_[region_].made[op].size()) {
    role.storage = watches_[region_].made[op][nth];
    role.is_remade = true;
    trace_.storages[role.storage].remade = interval;
    trace_.storages[role.storage].used_up = kNone;
    trace_.storages[role.storage].rewritten = kNone;
  }
  roles_.push_back(role);
}

}  // namespace reprise::planning
