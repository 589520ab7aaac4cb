#include "plan/trace/op_recorder.h"

#include "plan/measure/op_tensors.h"

#include <algorithm>

namespace reprise::planning {

OpRecorder::Call OpRecorder::begin(const c10::OperatorHandle& op,
                                   c10::ArrayRef<c10::IValue> arguments) {
  cuts_.end_gap();
  Call call;
  for (const auto& argument : arguments) {
    for_each_tensor_of(argument, [&](const at::Tensor& tensor) {
      if (has_bytes(tensor)) {
        call.arguments.push_back(tensor.storage().unsafeGetStorageImpl());
      }
    });
  }
  if (cuts_.is_in_region()) {
    call.op = number(op, arguments);
  }
  storages_.note_writes(op, arguments);
  if (is_timed(call)) {
    call.begun = clock_.mark();  // last, so that only the call itself is timed
  }
  return call;
}

size_t OpRecorder::number(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  RegionOps& ops = regions_[cuts_.region()].ops;
  TracedRegion& region = trace_.regions[cuts_.region()];
  return cuts_.phase() == StepPhase::Forward ? ops.add(op, arguments, region)
                                             : ops.find(op, arguments, region);
}

bool OpRecorder::is_timed(const Call& call) const {
  return call.op != kNone && cuts_.phase() == StepPhase::Forward;
}

void OpRecorder::end(const Call& call, c10::ArrayRef<c10::IValue> results) {
  if (is_timed(call)) {
    regions_[cuts_.region()].ops.set_times(call.op, call.begun, clock_.mark());
  }
  const int64_t peak = cuts_.end_work(call.op);
  if (is_timed(call)) {
    trace_.regions[cuts_.region()].ops[call.op].workspace_bytes = peak - cuts_.level();
  }
  size_t nth = 0;
  for (const auto& result : results) {
    for_each_tensor_of(result, [&](const at::Tensor& tensor) {
      const bool is_new =
          has_bytes(tensor) && !storages_.find(tensor) &&
          std::find(call.arguments.begin(),
                    call.arguments.end(),
                    tensor.storage().unsafeGetStorageImpl()) == call.arguments.end();
      if (is_new) {
        add_storage(tensor, call.op, nth++);
      }
    });
  }
}

void OpRecorder::add_storage(const at::Tensor& tensor, size_t op, size_t nth) {
  if (op == kNone) {
    storages_.add_made_outside(tensor);
    return;
  }
  RegionOps& ops = regions_[cuts_.region()].ops;
  if (cuts_.phase() == StepPhase::Forward) {
    const size_t traced = storages_.add_made(tensor, cuts_.region(), op);
    ops.add_made(op, traced, tensor.storage().nbytes());
  } else if (const auto traced = ops.made(op, nth)) {
    storages_.add_remade(tensor, *traced);
  } else {
    storages_.add_made_outside(tensor);
  }
}

}  // namespace reprise::planning
