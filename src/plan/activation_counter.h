// Activation bytes of a device: what is alive, less what was alive at the start, less what was set
// aside since.
//
// Note [What an activation is]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A step's memory is what is there anyway (weights, optimizer state, older gradients), the
// gradients that it leaves behind, and the rest, which is what a memory policy can change: the
// activations. A parameter's gradient is one until AccumulateGrad has put it in place; from then on
// it is set aside. Where a gradient existed already nothing new stays alive, and nothing is.
#pragma once

#include <reprise/memory.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace reprise::planning {

/// Bytes that a living storage counts for on `device`; 0 if it lies elsewhere. A CUDA allocator may
/// give a block that is up to 1 MiB larger than this, if no smaller one is free.
int64_t counted_bytes(const c10::Storage& storage, c10::Device device);

/// Bytes that a new allocation of `bytes` counts for.
int64_t rounded_bytes(int64_t bytes, c10::Device device);

class ActivationCounter {
 public:
  explicit ActivationCounter(c10::Device device);

  c10::Device device() const { return device_; }
  /// Activation bytes alive now.
  int64_t now() const;
  /// Ends an interval and begins the next: the most activation bytes alive in it.
  int64_t cut();
  /// `storage` is no activation from here on. Once per storage; call it right after cut().
  void set_aside(const c10::Storage& storage);

 private:
  c10::Device device_;
  int64_t start_;
  // One per interval: neither we nor others who measure around us or inside lose a peak.
  std::optional<PeakTracker> interval_;
  int64_t aside_ = 0;
  // Weak, so that nothing lives longer, and no other storage gets the address meanwhile.
  std::set<const void*> seen_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> set_aside_;
};

}  // namespace reprise::planning
