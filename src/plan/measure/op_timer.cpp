#include "plan/measure/op_timer.h"

#include "plan/measure/roofline.h"

#include <c10/util/Exception.h>

#include <utility>

namespace reprise::planning {
namespace {

thread_local OpTimer* timing = nullptr;  // a callback is a plain function and finds it here

}  // namespace

OpTimer::OpTimer(const DeviceProfile& device) : device_(device) {
  TORCH_INTERNAL_ASSERT(timing == nullptr);
  timing = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
            timing->op_begins(op);
            return nullptr;
          },
          [](const at::RecordFunction& op, at::ObserverContext*) { timing->op_ended(op); })
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

OpTimer::~OpTimer() {
  at::removeCallback(handle_);
  timing = nullptr;
}

double OpTimer::ms() const {
  constexpr double kMilliseconds = 1e-6;
  double ns = total_ns_;
  for (const Running& op : running_) {
    ns += op.ns;
  }
  return ns * kMilliseconds;
}

void OpTimer::settle(c10::ArrayRef<c10::IValue> results) {
  TORCH_INTERNAL_ASSERT(!running_.empty());
  Running& op = running_.back();
  if (op.schema == nullptr || std::exchange(op.is_settled, true)) {
    return;
  }
  const OpCallView call{.schema = *op.schema, .arguments = op.arguments, .results = results};
  if (const auto arithmetic = arithmetic_ns(call, device_)) {
    op.ns = *arithmetic;
  } else if (op.ns == 0) {
    op.ns = memory_ns(call, device_);
  }
}

const c10::FunctionSchema* OpTimer::schema_of(const at::RecordFunction& op) {
  const auto [known, is_new] = schemas_.try_emplace(op.name());
  if (is_new) {
    known->second = op.operator_schema();
  }
  return known->second ? &*known->second : nullptr;
}

void OpTimer::op_begins(const at::RecordFunction& op) {
  const auto arguments = op.inputs();
  running_.push_back({.schema = schema_of(op),
                      .arguments = std::vector<c10::IValue>(arguments.begin(), arguments.end())});
}

void OpTimer::op_ended(const at::RecordFunction& op) {
  settle(op.outputs());
  const double ns = running_.back().ns;
  running_.pop_back();
  (running_.empty() ? total_ns_ : running_.back().ns) += ns;
}

}  // namespace reprise::planning
