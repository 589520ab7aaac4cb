// Measures and limits the live bytes of a device, checked at every allocation.
//
// Bytes are counted above a floor. The floor starts at what is alive, and can be raised as tensors
// become something that should not count, such as gradients. An allocation that would exceed
// floor + limit throws c10::OutOfMemoryError.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

namespace reprise::memory {

/// The counters of a watch, used by every thread that allocates.
class WatchedBytes {
 public:
  void begin(int64_t floor, int64_t limit);
  void end() { is_on_.store(false, std::memory_order_release); }
  void raise_floor(int64_t bytes) { floor_.fetch_add(bytes, std::memory_order_relaxed); }

  bool is_on() const { return is_on_.load(std::memory_order_acquire); }
  int64_t floor() const { return floor_.load(std::memory_order_relaxed); }
  int64_t most() const { return most_.load(std::memory_order_relaxed); }

  /// Whether a total of `live` bytes is within the limit. Updates the peak if so.
  bool admits(int64_t live);
  /// Throws the error for an allocation of `bytes` that was not admitted.
  [[noreturn]] void refuse(int64_t bytes, int64_t live, c10::Device device) const;

 private:
  std::atomic<bool> is_on_{false};
  std::atomic<int64_t> floor_{0};
  std::atomic<int64_t> limit_{0};
  std::atomic<int64_t> most_{0};
};

/// The watch on CPU tensors, for all threads.
WatchedBytes& cpu_watch();

/// Watches allocations in its scope: on the CPU those of all threads (call track_cpu_memory()
/// first), on other devices those of this thread and of its backward calls. One at a time.
class REPRISE_API AllocationWatch {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  explicit AllocationWatch(c10::Device device, int64_t limit = kNoLimit);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  /// Stops counting this many of the live bytes.
  void raise_floor(int64_t bytes);
  /// Peak of the bytes above the floor.
  int64_t most() const;
  /// Bytes above the floor now.
  int64_t now() const;

 private:
  class Reporter;
  WatchedBytes& counts() const;

  c10::Device device_;
  std::shared_ptr<Reporter> reporter_;  // null for the CPU
};

}  // namespace reprise::memory
