// Live and peak bytes of tensors per device.
//
// On CUDA the caching allocator counts them. On the CPU, track_cpu_memory() installs a counting
// allocator in front of LibTorch's. It counts only later allocations, so call it first in main().
// Malloc rounds sizes up, so compare CPU bytes with a tolerance.
//
// The counting allocator also reuses freed blocks of 1 MiB and more, without letting the process
// grow beyond its peak of live bytes. With malloc alone, a training process becomes almost twice as
// large as its tensors.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise {

/// Starts to count the bytes of CPU tensors, for the rest of the process. Idempotent.
REPRISE_API void track_cpu_memory();

/// Bytes of live tensors. Throws for the CPU if track_cpu_memory() was not called, and for a device
/// whose allocator does not count.
REPRISE_API int64_t live_bytes(c10::Device device);

/// The peak of live_bytes since the start or the last reset_peak_bytes.
REPRISE_API int64_t peak_bytes(c10::Device device);

/// Sets the peak to the bytes that are live now.
REPRISE_API void reset_peak_bytes(c10::Device device);

/// Measures the peak within a scope, over all threads. Trackers on one device may be nested. On
/// CUDA, peak_bytes() is that of the scope afterwards, because the caching allocator cannot restore
/// an earlier peak.
class REPRISE_API PeakTracker {
 public:
  explicit PeakTracker(c10::Device device);
  ~PeakTracker();
  PeakTracker(const PeakTracker&) = delete;
  PeakTracker& operator=(const PeakTracker&) = delete;

  /// Live bytes when the tracker was constructed.
  int64_t start() const { return start_; }
  /// Peak of the live bytes since then.
  int64_t peak() const;
  /// peak() - start(): what the scope needed in addition.
  int64_t extra() const { return peak() - start_; }

 private:
  friend REPRISE_API void reset_peak_bytes(c10::Device device);

  c10::Device device_;
  int64_t start_;
  int64_t process_peak_;  // the peak before the tracker
  int64_t seen_;          // the peak until the device's peak was last reset
};

}  // namespace reprise
