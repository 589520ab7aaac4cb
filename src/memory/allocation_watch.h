// A bound on the bytes alive on a device that is minded at every allocation, not noticed after it.
//
// Bytes are counted above a floor, which begins with what is alive and can be raised as tensors
// become something that is not counted (gradients in place). An allocation that would end above
// floor + limit throws c10::OutOfMemoryError.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

namespace reprise::detail {

/// What a watch counts, read and written by every thread that allocates.
class WatchedBytes {
 public:
  void begin(int64_t floor, int64_t limit);
  void end() { is_on_.store(false, std::memory_order_release); }
  void raise_floor(int64_t bytes) { floor_.fetch_add(bytes, std::memory_order_relaxed); }

  bool is_on() const { return is_on_.load(std::memory_order_acquire); }
  int64_t floor() const { return floor_.load(std::memory_order_relaxed); }
  int64_t most() const { return most_.load(std::memory_order_relaxed); }

  /// Whether `live` bytes in all may be alive. Those that may are noted.
  bool admits(int64_t live);
  /// Throws: an allocation of `bytes` was not admitted.
  [[noreturn]] void refuse(int64_t bytes, int64_t live, c10::Device device) const;

 private:
  std::atomic<bool> is_on_{false};
  std::atomic<int64_t> floor_{0};
  std::atomic<int64_t> limit_{0};
  std::atomic<int64_t> most_{0};
};

/// The watch on CPU tensors: one at a time, over all threads.
WatchedBytes& cpu_watch();

/// In force while it lives. On the CPU for all threads (track_cpu_memory() first); on another
/// device for the thread that made it and for the backward calls made there. One at a time.
class REPRISE_API AllocationWatch {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  explicit AllocationWatch(c10::Device device, int64_t limit = kNoLimit);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  /// So many bytes of those alive do not count from here on.
  void raise_floor(int64_t bytes);
  /// The most bytes above the floor so far.
  int64_t most() const;
  /// Bytes above the floor now.
  int64_t now() const;

 private:
  class Reporter;
  WatchedBytes& counts() const;

  c10::Device device_;
  std::shared_ptr<Reporter> reporter_;  // null for the CPU
};

}  // namespace reprise::detail
