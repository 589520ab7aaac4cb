// Adds up how long the operators of this thread would take on a device (op_cost.h), in forward,
// recompute and backward, while nothing is computed.
//
// Of an operator that calls others the time is theirs; a product or an attention is one, whatever
// it calls.
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
  /// One at a time on a thread. Times the thread's operators from here on.
  explicit OpTimer(const DeviceProfile& device);
  ~OpTimer();
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

  /// Of all operators so far, also of those that running ones have called.
  double ms() const;
  /// The innermost operator that runs is over, but for its return: from here on its own time
  /// counts.
  void settle(c10::ArrayRef<c10::IValue> results);

 private:
  struct Running {
    const c10::FunctionSchema* schema = nullptr;  // null: nothing that is dispatched
    std::vector<c10::IValue> arguments;
    double ns = 0;  // of what it called; when it is settled, of itself
    bool is_settled = false;
  };

  void op_begins(const at::RecordFunction& op);
  void op_ended(const at::RecordFunction& op);
  const c10::FunctionSchema* schema_of(const at::RecordFunction& op);

  const DeviceProfile& device_;
  std::vector<Running> running_;                                                 // outermost first
  std::unordered_map<const void*, std::optional<c10::FunctionSchema>> schemas_;  // by their names
  double total_ns_ = 0;
  at::CallbackHandle handle_;
};

}  // namespace reprise::planning
