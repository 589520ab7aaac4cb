// Live and peak bytes per device.
//
// On CUDA the caching allocator counts by itself. On the CPU nobody counts until asked to:
// track_cpu_memory() puts a counting allocator in front of LibTorch's. Only what is allocated
// afterwards is counted, so call it first thing in main(). Malloc rounds sizes up, so compare CPU
// bytes with a tolerance.
//
// That allocator also keeps freed blocks of 1 MiB and more for reuse, without ever letting the
// process grow beyond the most that was alive: malloc makes a training process almost twice as
// large as its tensors.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise {

/// Begins to count CPU tensor bytes, for the rest of the process. Calling it again does nothing.
REPRISE_API void track_cpu_memory();

/// Bytes of tensors alive now. Throws for the CPU if track_cpu_memory() was not called, and for a
/// device without a counting allocator.
REPRISE_API int64_t live_bytes(c10::Device device);

/// The most bytes that were alive at once since the start or the last reset_peak_bytes.
REPRISE_API int64_t peak_bytes(c10::Device device);

/// Sets the peak to what is alive now.
REPRISE_API void reset_peak_bytes(c10::Device device);

/// Measures the peak of a scope. Trackers on one device may nest. A tracker sees what all threads
/// allocate. On CUDA it leaves peak_bytes() at its own scope's peak, because the caching allocator
/// cannot set a peak.
class REPRISE_API PeakTracker {
 public:
  explicit PeakTracker(c10::Device device);
  ~PeakTracker();
  PeakTracker(const PeakTracker&) = delete;
  PeakTracker& operator=(const PeakTracker&) = delete;

  /// Bytes alive when the tracker was made.
  int64_t start() const { return start_; }
  /// The most bytes alive at once since then.
  int64_t peak() const;
  /// peak() - start(): what the scope needed on top.
  int64_t extra() const { return peak() - start_; }

 private:
  friend REPRISE_API void reset_peak_bytes(c10::Device device);

  c10::Device device_;
  int64_t start_;
  int64_t process_peak_;  // before the tracker
  int64_t seen_;          // the most before the device's peak was last reset
};

}  // namespace reprise
