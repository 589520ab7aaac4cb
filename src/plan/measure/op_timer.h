// Adds up the predicted times (roofline.h) of the operators of this thread, in forward, recompute
// and backward, while nothing is computed.
//
// The time of an operator that calls others is the sum of theirs. Matrix products and attention are
// timed as a whole, whatever they call.
#pragma once

#include <reprise/device_profile.h>
#include <reprise/export.h>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace reprise::planning {

class REPRISE_API OpTimer {
 public:
  /// Times the thread's operators from here on. One at a time per thread.
  explicit OpTimer(const DeviceProfile& device);
  ~OpTimer();
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

  /// The time of all operators so far, including those called by operators that still run.
  double ms() const;
  /// Call when the innermost operator has computed its results, before it returns. From here on its
  /// own time counts instead of its callees'.
  void settle(c10::ArrayRef<c10::IValue> results);

 private:
  struct Running {
    const c10::FunctionSchema* schema = nullptr;  // null: no dispatched operator
    std::vector<c10::IValue> arguments;
    double ns = 0;  // of its callees; once settled, its own
    bool is_settled = false;
  };

  void op_begins(const at::RecordFunction& op);
  void op_ended(const at::RecordFunction& op);
  const c10::FunctionSchema* schema_of(const at::RecordFunction& op);

  const DeviceProfile& device_;
  std::vector<Running> running_;                                                 // outermost first
  std::unordered_map<const void*, std::optional<c10::FunctionSchema>> schemas_;  // by name pointer
  double total_ns_ = 0;
  at::CallbackHandle handle_;
};

}  // namespace reprise::planning
