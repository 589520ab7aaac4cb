// The storages that a traced step makes: when each is made, first written in place, and freed.
#pragma once

#include "plan/trace/step_trace.h"
#include "plan/trace/storage_ledger.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::planning {

/// Writes StepTrace::storages. Not thread-safe.
class StorageRecorder {
 public:
  /// A storage that the step made. Intervals are those of the trace.
  struct Entry {
    size_t traced = kNone;   ///< index in StepTrace::storages; kNone: made outside of regions
    bool is_remade = false;  ///< made by a recompute
    int64_t bytes = 0;
    size_t made = 0, died = kNone;
  };

  explicit StorageRecorder(StepTrace& trace) : trace_(trace) {}

  /// The number of the tensor's storage; std::nullopt if the step did not make it.
  std::optional<size_t> find(const at::Tensor& tensor) const { return ledger_.find(tensor); }
  const Entry& entry(size_t number) const { return entries_[number]; }
  /// Tensors that share the storage.
  size_t holders(size_t number) const { return ledger_.holders(number); }

  // A new storage, made in the last interval: outside of regions, by operator `op` of a region's
  // forward (returns its index in the trace), or by a recompute in place of `traced`.
  void add_made_outside(const at::Tensor& tensor);
  size_t add_made(const at::Tensor& tensor, size_t region, size_t op);
  void add_remade(const at::Tensor& tensor, size_t traced);

  /// Region `region` gets the storage as an input.
  void note_input(size_t number, size_t region);
  /// Autograd saves the storage in the forward of `region`.
  void note_saved(size_t number, size_t region);
  /// An operator is about to write some of its arguments.
  void note_writes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  /// Adds up what the region returns and what autograd saves inside it.
  void note_forward_ended(size_t region);
  /// Storages that have died since the last call died in `interval`. Returns their bytes.
  int64_t note_dead(size_t interval);

 private:
  void add(const at::Tensor& tensor, const Entry& entry);
  Entry new_entry(const at::Tensor& tensor) const;

  StepTrace& trace_;
  StorageLedger ledger_;
  std::vector<Entry> entries_;  // by number in the ledger
};

}  // namespace reprise::planning
