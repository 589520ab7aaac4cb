// Times that do not depend on the machine's load, for tests that ask which plan is chosen: matrix
// products and attention cost ten times as much per byte as anything else.
#pragma once

#include "plan/trace/step_trace.h"

namespace reprise::testing {

inline planning::StepTrace with_steady_times(planning::StepTrace trace) {
  constexpr double kMsPerByte = 1e-6;
  constexpr double kArithmetic = 10;
  trace.before_ms = trace.head_ms = 1;
  for (auto& region : trace.regions) {
    region.forward_ms = region.recompute_ms = 0;
    for (auto& op : region.ops) {
      const bool is_arithmetic =
          op.op_class == OpClass::Matmul || op.op_class == OpClass::Attention;
      op.forward_ms =
          static_cast<double>(op.bytes) * kMsPerByte * (is_arithmetic ? kArithmetic : 1);
      region.forward_ms += op.forward_ms;
      region.recompute_ms += op.is_rerun ? op.forward_ms : 0;
    }
    region.backward_ms = 2 * region.forward_ms;
  }
  return trace;
}

}  // namespace reprise::testing
