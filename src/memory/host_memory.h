// Host memory for what has left a device: of exactly the size that is asked for, pinned for a GPU,
// counted, and within a limit.
//
// Note [Tiers]
// ~~~~~~~~~~~~
// Tensors of a GPU may be on the device or in host memory. A CPU has one memory, so there is
// nothing to offload. With set_cpu_tiers(true), or REPRISE_CPU_TIERS=1 in the environment, its
// memory has the same two tiers: what empty_on_host() returns does not count as bytes of the CPU,
// and copies between the tiers run as late as they may (memory/copy_streams.h). So a machine
// without a GPU can prove what is where, to the byte. It saves no memory.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

namespace reprise::memory {

/// Whether tensors of this device can leave it for host memory.
REPRISE_API bool has_host_tier(c10::Device device);
/// Gives the CPU two tiers, or one. For tests.
REPRISE_API void set_cpu_tiers(bool are_two);

/// A tensor in host memory for values that belong on `device`, contiguous and not initialised; a
/// meta tensor for the meta device. Throws c10::OutOfMemoryError, with
/// advice, if that exceeds the limit or the system refuses the memory or to pin it.
REPRISE_API at::Tensor empty_on_host(at::IntArrayRef sizes,
                                     at::ScalarType dtype,
                                     c10::Device device);

/// Bytes of live tensors that empty_on_host() made, and their peak.
REPRISE_API int64_t host_bytes();
REPRISE_API int64_t host_peak_bytes();
REPRISE_API void reset_host_peak_bytes();

/// The most of host_bytes(); 0: what is free less a tenth of all, for memory of a GPU.
REPRISE_API void set_host_limit(int64_t bytes);
REPRISE_API int64_t host_limit();

/// Pins existing memory for CUDA. pin() returns the reason if the system refuses, else null.
struct HostPinning {
  const char* (*pin)(void* data, size_t bytes) = nullptr;
  void (*unpin)(void* data) = nullptr;
};
/// Called once, while libreprise_cuda is opened. Without it, pinned memory comes from LibTorch's
/// allocator, which rounds each tensor up to a power of two.
REPRISE_API void provide_host_pinning(const HostPinning& pinning);

}  // namespace reprise::memory
