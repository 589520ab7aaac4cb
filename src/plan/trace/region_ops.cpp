#include "plan/trace/region_ops.h"

#include "checkpoint/ops/op_info.h"

#include <algorithm>

namespace reprise::planning {

bool RegionOps::is_cast(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) const {
  return has_autocast_ && detail::is_cached_cast(op, arguments);
}

RegionOps::Call RegionOps::next_call(const c10::OperatorHandle& op, bool is_cast) {
  // Casts are counted separately, so that they do not shift the numbers that policies see.
  const void* id = is_cast ? nullptr : detail::op_id(op);
  return {id, calls_[id]++};
}

size_t RegionOps::add(const c10::OperatorHandle& op,
                      c10::ArrayRef<c10::IValue> arguments,
                      TracedRegion& region) {
  const bool cast = is_cast(op, arguments);
  const Call call = next_call(op, cast);
  const auto& info = detail::op_info(op);
  TracedOp traced;
  traced.name = op.schema().name();
  traced.overload = op.schema().overload_name();
  traced.op_class = info.op_class;
  traced.call_index = cast ? kNone : call.second;
  traced.can_keep =
      !cast && !info.is_factory && !info.returns_view && !info.hides_view && !info.writes_arguments;
  op_of_call_[call] = region.ops.size();
  records_.emplace_back();
  region.ops.push_back(std::move(traced));
  return region.ops.size() - 1;
}

size_t RegionOps::find(const c10::OperatorHandle& op,
                       c10::ArrayRef<c10::IValue> arguments,
                       TracedRegion& region) {
  const auto found = op_of_call_.find(next_call(op, is_cast(op, arguments)));
  if (found == op_of_call_.end()) {
    return kNone;
  }
  region.ops[found->second].is_rerun = true;
  region.rerun_ops = std::max(region.rerun_ops, found->second + 1);
  return found->second;
}

void RegionOps::add_made(size_t op, size_t traced, size_t raw_bytes) {
  records_[op].made.push_back(traced);
  records_[op].raw_bytes += raw_bytes;
}

std::optional<size_t> RegionOps::made(size_t op, size_t nth) const {
  const auto& made = records_[op].made;
  return nth < made.size() ? std::optional(made[nth]) : std::nullopt;
}

}  // namespace reprise::planning
