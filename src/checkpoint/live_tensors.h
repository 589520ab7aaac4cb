// Who made the storages that are alive: the log behind LiveTensorReport.
#pragma once

#include <reprise/live_tensors.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::detail {

/// Storages by the operator and the region that made them. Threads may share it.
class LiveTensors {
 public:
  /// `op` has run on this thread and left its results on the stack.
  void made(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  std::vector<LiveTensorGroup> groups() const;

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // keeps the address from being used again
    size_t maker;
  };

  void add(const at::Tensor& tensor, size_t maker);
  size_t maker_of(const c10::OperatorHandle& op);

  mutable std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Entry> storages_;
  size_t prune_at_ = 1024;
  std::vector<LiveTensorGroup> makers_;  // without counts
  std::map<std::pair<const void*, std::string>, size_t> maker_numbers_;
};

using LiveTensorsPtr = std::shared_ptr<LiveTensors>;

/// The log of this thread, or null.
const LiveTensorsPtr& live_tensors();

/// The table of a report.
std::string table_of(const std::vector<LiveTensorGroup>& groups, size_t lines);

/// In its scope, this thread's operators belong to a region.
class LiveRegionGuard {
 public:
  /// `live`: the log of the thread that ran forward.
  LiveRegionGuard(LiveTensorsPtr live, const std::string& label, const char* phase);
  ~LiveRegionGuard();
  LiveRegionGuard(const LiveRegionGuard&) = delete;
  LiveRegionGuard& operator=(const LiveRegionGuard&) = delete;

 private:
  LiveTensorsPtr previous_;
  std::string previous_region_;
  const char* previous_phase_;
};

}  // namespace reprise::detail
