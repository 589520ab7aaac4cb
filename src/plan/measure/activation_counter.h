// Counts the activation bytes of a thread: the bytes that it keeps alive on a device, less those
// alive at the start and those set aside since. Note [Whose bytes they are].
//
// Note [What an activation is]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The memory of a step has three parts: what is allocated anyway (weights, optimizer state, older
// gradients), the gradients that it leaves behind, and the activations, which is the rest and what
// a memory policy can change. A parameter's gradient counts as an activation until AccumulateGrad
// has put it in place; from then on it is set aside. If the parameter had a gradient already,
// nothing new stays alive, and nothing is set aside.
#pragma once

#include "memory/thread_bytes.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <set>
#include <vector>

namespace reprise::planning {

/// Bytes that a live storage counts for on `device`; 0 if it is elsewhere. If no smaller block is
/// free, a CUDA allocator may use one that is up to 1 MiB larger than this.
int64_t counted_bytes(const c10::Storage& storage, c10::Device device);

/// Bytes that a new allocation of `bytes` counts for.
int64_t rounded_bytes(int64_t bytes, c10::Device device);

/// For the thread that constructs it, which must also destroy it.
class ActivationCounter {
 public:
  explicit ActivationCounter(c10::Device device);

  c10::Device device() const { return device_; }
  /// Activation bytes alive now.
  int64_t now() const;
  /// Ends an interval and begins the next. Returns the most activation bytes alive in it.
  int64_t cut();
  /// On the CPU: an allocation that would bring now() above `bytes` throws c10::OutOfMemoryError.
  void set_limit(int64_t bytes) { bytes_.set_limit(bytes); }
  /// From here on `storage` is no activation. Once per storage; call it right after cut().
  void set_aside(const c10::Storage& storage);
  /// The same for a storage of `bytes` that was not set aside before and stays.
  void set_aside(int64_t bytes);

 private:
  c10::Device device_;
  memory::ThreadBytes bytes_;
  int64_t aside_ = 0;
  // Weak references: they keep no bytes alive, but keep the addresses above from being reused.
  std::set<const void*> seen_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> set_aside_;
};

}  // namespace reprise::planning
