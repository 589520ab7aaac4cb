// The bytes alive on a device by the phase of a micro-batch in which they were allocated, at the
// moment when most were alive. So a peak in backward can be divided exactly: into what forward
// kept and is still there, what the loss left, gradients in place, and working memory.
//
// On the CPU it counts the blocks of all threads, on a GPU those of the thread that constructed it
// and of its backward calls (Note [How a device's allocations are observed]).
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace reprise::memory {

enum class Phase : uint8_t { Forward, Loss, Backward };

class REPRISE_API PhaseBytes {
 public:
  /// Begins with Phase::Forward. Destroy it on the thread that constructed it.
  explicit PhaseBytes(c10::Device device);
  ~PhaseBytes();
  PhaseBytes(const PhaseBytes&) = delete;
  PhaseBytes& operator=(const PhaseBytes&) = delete;

  /// Blocks that are allocated from now on belong to `phase`.
  void begin(Phase phase);
  /// From now on so many of the bytes are a gradient in place.
  void set_aside(int64_t bytes);

  /// What was alive when most was.
  struct Moment {
    Phase phase = Phase::Forward;
    int64_t live = 0;  ///< on the device, also what is older
    int64_t forward = 0;
    int64_t loss = 0;
    int64_t aside = 0;
  };
  Moment peak() const;
  /// The most bytes beyond those at the start and those set aside.
  int64_t most_activations() const;

  class Table;

 private:
  class Reporting;
  std::unique_ptr<std::mutex> mutex_;  // null on the CPU, whose tables share one
  std::unique_ptr<Table> table_;
  std::unique_ptr<Reporting> reporting_;  // null on the CPU
};

namespace phase_bytes {

/// How many count CPU blocks.
extern std::atomic<int64_t> counts;

void cpu_allocated(const void* data, int64_t bytes, int64_t live);
void cpu_freed(const void* data);

/// Call after a block was allocated; `live`: all bytes then.
inline void note_allocated(const void* data, int64_t bytes, int64_t live) {
  if (counts.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    cpu_allocated(data, bytes, live);
  }
}

/// Call before it is freed, because another thread may get its address right after.
inline void note_freed(const void* data) {
  if (counts.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    cpu_freed(data);
  }
}

}  // namespace phase_bytes
}  // namespace reprise::memory
