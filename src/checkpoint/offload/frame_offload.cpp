// What a frame offloads when forward ends. Everything that may throw is checked before anything is
// moved, so a region that fails still holds what it held.
#include "checkpoint/frame.h"
#include "checkpoint/offload/host_pool.h"
#include "checkpoint/stats.h"

namespace reprise::detail {
namespace {

/// None of the inputs could ever move. Small ones could: how large a batch is may change from step
/// to step.
[[noreturn]] void refuse_inputs(const Region& region, std::optional<c10::Device> device) {
  if (device) {
    throw CheckpointError(c10::str("[offload] ",
                                   region.label(),
                                   ": offload_inputs, but its inputs are on ",
                                   *device,
                                   ", in host memory already: moving them would free nothing. "
                                   "Leave offload_inputs off for this device."));
  }
  throw CheckpointError(c10::str(
      "[offload] ",
      region.label(),
      ": offload_inputs has no effect, because none of its arguments is an activation that "
      "could leave the device: there is no tensor, or they are leaves (parameters, masks, "
      "the batch), views of leaves, or written by the region. Leave offload_inputs off for "
      "this region."));
}

// A replay of the graph would copy into pages that other regions use by then.
[[noreturn]] void refuse_capture(const Region& region) {
  throw CheckpointError(c10::str("[offload] ",
                                 region.label(),
                                 " is captured into a CUDA graph, which cannot offload. Keep or "
                                 "recompute instead, or do not capture the step."));
}

}  // namespace

void Frame::offload_storages(bool counts) {
  if (!recording_ && !region_.options.offload_inputs && region_.once.size() == 0) {
    return;
  }
  const bool will_run_again = !slots_.empty();
  const auto backend = host_pool()->backend;
  OffloadCandidates candidates(*backend);
  if (will_run_again && region_.options.offload_inputs) {
    region_.inputs.add_candidates(candidates, [this](const c10::StorageImpl* storage) {
      return region_.write_log.has(storage);
    });
    if (!candidates.has_movable()) {
      refuse_inputs(region_, candidates.unsupported_device());
    }
  }
  if (will_run_again && recording_) {
    recording_->add_candidates(candidates);
  }
  if (!candidates.is_empty()) {
    if (is_capturing_graph()) {
      refuse_capture(region_);
    }
    offload_group_ = start_offload(candidates.items(), region_.options.name);
    offload_group_->owner = weak_from_this();
    if (region_.options.offload_inputs) {
      region_.inputs.move_to(candidates, offload_group_);
    }
    if (recording_) {
      recording_->move_to(candidates, offload_group_);
    }
  }
  if (counts) {
    RegionStats delta;
    delta.bytes_offloaded = offload_group_ ? offload_group_->bytes() : 0;
    delta.bytes_not_moved = candidates.bytes_not_moved();
    delta.bytes_kept = region_.once.kept_bytes();
    if (recording_) {
      delta.bytes_kept += recording_->kept_bytes();
      delta.bytes_compressed = recording_->bytes_before_compression();
      delta.bytes_compressed_to = recording_->compressed_bytes();
      delta.bytes_not_moved += recording_->bytes_not_compressed();
    }
    count(region_.options.name, delta);
  }
}

}  // namespace reprise::detail
