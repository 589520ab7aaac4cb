// Live and peak bytes of one thread's tensors, whatever other threads allocate meanwhile.
//
// Note [Whose bytes they are]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A block belongs to the thread that allocated it, whoever frees it. To a thread also belong
//   the backward calls that it makes, on whatever thread of the autograd engine their nodes run;
//   what kernels allocate on the threads of a parallel loop, as long as only one thread counts (a
//     loop does not say who started it);
//   blocks that are older than the count, when the thread frees them: they make room.
// On a GPU, blocks are only followed on the thread and in its backward calls: a block that another
// thread frees stays counted, and a block that another thread has allocated since the count began
// is taken for an older one when this thread frees it.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace reprise::memory {

/// Counts from its construction on, for the thread that constructs it. Destroy it there. Several
/// may be nested.
class REPRISE_API ThreadBytes {
 public:
  explicit ThreadBytes(c10::Device device);
  ~ThreadBytes();
  ThreadBytes(const ThreadBytes&) = delete;
  ThreadBytes& operator=(const ThreadBytes&) = delete;

  /// Bytes that are alive beyond those at the start. Less than 0 if more older bytes were freed.
  int64_t live() const;
  /// Most of live() since the start or the last reset_peak().
  int64_t peak() const;
  void reset_peak();
  /// On the CPU: an allocation that would bring live() above `bytes` throws c10::OutOfMemoryError.
  void set_limit(int64_t bytes);
  void raise_limit(int64_t bytes);

  class Count;

 private:
  class Reporter;
  class Reporting;
  std::unique_ptr<Count> count_;
  std::unique_ptr<Reporting> reporting_;  // null on the CPU and on meta
};

namespace thread_bytes {

/// How many counts there are on the CPU, in all threads.
extern std::atomic<int64_t> counts;

/// Throws if a block would exceed a limit.
void check_cpu_limit(int64_t bytes);
void cpu_allocated(const void* data, int64_t bytes);
void cpu_freed(const void* data, int64_t bytes);
void meta_allocated(int64_t bytes);
void meta_freed(int64_t bytes);

/// Call before a block is given out; if this throws, it is not.
inline void check_limit(int64_t bytes) {
  if (counts.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    check_cpu_limit(bytes);
  }
}

/// Call after a block was allocated.
inline void note_allocated(const void* data, int64_t bytes) {
  if (counts.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    cpu_allocated(data, bytes);
  }
}

/// Call before it is freed, because another thread may get its address right after.
inline void note_freed(const void* data, int64_t bytes) {
  if (counts.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    cpu_freed(data, bytes);
  }
}

}  // namespace thread_bytes
}  // namespace reprise::memory
