// The operator calls of one region of a traced step: which they are, when they ran, and which
// storages they made.
#pragma once

#include "plan/trace/step_trace.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::planning {

/// Operators are numbered in the order of forward.
class RegionOps {
 public:
  explicit RegionOps(bool has_autocast) : has_autocast_(has_autocast) {}

  /// A call of forward: adds an operator to `region` and returns its number.
  size_t add(const c10::OperatorHandle& op,
             c10::ArrayRef<c10::IValue> arguments,
             TracedRegion& region);
  /// A recompute begins: calls are counted from the first again.
  void begin_recompute() { calls_.clear(); }
  /// A call of recompute: the number of the same call in forward. kNone for a cast that forward
  /// found in autocast's cache.
  size_t find(const c10::OperatorHandle& op,
              c10::ArrayRef<c10::IValue> arguments,
              TracedRegion& region);

  /// The clock's marks around a call of forward.
  void set_times(size_t op, size_t begun, size_t ended) { records_[op].times = {begun, ended}; }
  std::pair<size_t, size_t> times(size_t op) const { return records_[op].times; }

  /// Forward made the storage `traced`, an index in StepTrace::storages.
  void add_made(size_t op, size_t traced, size_t raw_bytes);
  /// The nth storage that the operator made in forward, if it made as many.
  std::optional<size_t> made(size_t op, size_t nth) const;
  /// Bytes that it made, before the allocator's rounding.
  size_t raw_bytes(size_t op) const { return records_[op].raw_bytes; }

 private:
  /// Which operator, and which call of it.
  using Call = std::pair<const void*, size_t>;
  struct Record {
    std::vector<size_t> made;
    size_t raw_bytes = 0;
    std::pair<size_t, size_t> times;
  };

  bool is_cast(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) const;
  Call next_call(const c10::OperatorHandle& op, bool is_cast);

  const bool has_autocast_;
  std::map<const void*, size_t> calls_;  // of the run that is going on
  std::map<Call, size_t> op_of_call_;
  std::vector<Record> records_;  // by operator
};

}  // namespace reprise::planning
