// What a frame gives away when forward ends. Nothing is given away before everything that may throw
// has been checked, so a region that fails holds what it held.
#include "checkpoint/frame.h"
#include "checkpoint/offload_depot.h"
#include "checkpoint/stats.h"

namespace reprise::detail {
namespace {

[[noreturn]] void refuse_device(const Region& region, c10::Device device) {
  throw CheckpointError(c10::str("[offload] ",
                                 region.label(),
                                 ": offload_inputs, but its inputs are on ",
                                 device,
                                 ", in host memory already: moving them would free nothing. "
                                 "Leave offload_inputs off for this device."));
}

// The copies would be replayed into pages that other regions use by then.
[[noreturn]] void refuse_recording(const Region& region) {
  throw CheckpointError(c10::str("[offload] ",
                                 region.label(),
                                 " is recorded as a CUDA graph, which cannot offload. Keep or "
                                 "recompute instead, or do not record the step."));
}

}  // namespace

void Frame::send_parcel(bool counts) {
  if (!recording_ && !region_.options.offload_inputs) {
    return;
  }
  const bool will_run_again = !slots_.empty();
  const auto tier = depot()->tier;
  Outgoing outgoing(*tier);
  if (will_run_again && region_.options.offload_inputs) {
    region_.inputs.offer(outgoing, [this](const c10::StorageImpl* storage) {
      return region_.write_log.has(storage);
    });
    if (outgoing.is_empty() && outgoing.unserved()) {
      refuse_device(region_, *outgoing.unserved());
    }
  }
  if (will_run_again && recording_) {
    recording_->offer(outgoing);
  }
  if (!outgoing.is_empty()) {
    if (is_recorded()) {
      refuse_recording(region_);
    }
    parcel_ = send(outgoing.items(), region_.options.name);
    parcel_->owner = weak_from_this();
    if (region_.options.offload_inputs) {
      region_.inputs.move_to(outgoing, parcel_);
    }
    if (recording_) {
      recording_->move_to(outgoing, parcel_);
    }
  }
  if (counts) {
    RegionStats delta;
    delta.bytes_offloaded = parcel_ ? parcel_->bytes() : 0;
    delta.bytes_not_moved = outgoing.bytes_not_moved();
    if (recording_) {
      delta.bytes_kept = recording_->kept_bytes();
      delta.bytes_compressed = recording_->bytes_before_compression();
      delta.bytes_compressed_to = recording_->compressed_bytes();
      delta.bytes_not_moved += recording_->bytes_not_compressed();
    }
    count(region_.options.name, delta);
  }
}

}  // namespace reprise::detail
