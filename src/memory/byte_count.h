// Live bytes and their peak. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace reprise::memory {

class ByteCount {
 public:
  /// Returns the new live bytes. Does not raise the peak, because the allocation may still be
  /// refused.
  int64_t add(int64_t bytes) { return live_.fetch_add(bytes, std::memory_order_relaxed) + bytes; }

  void subtract(int64_t bytes) { live_.fetch_sub(bytes, std::memory_order_relaxed); }

  void raise_peak(int64_t bytes) {
    int64_t seen = peak();
    while (bytes > seen && !peak_.compare_exchange_weak(seen, bytes, std::memory_order_relaxed)) {
    }
  }

  /// Never below the live bytes.
  void set_peak(int64_t bytes) { peak_.store(std::max(bytes, live()), std::memory_order_relaxed); }

  int64_t live() const { return live_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace reprise::memory
