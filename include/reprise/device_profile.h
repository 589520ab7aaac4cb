// The speed and memory of a device, in the few numbers that predict the time of a training step.
// With them a step can be planned for a device that this machine does not have.
//
// An efficiency is the share of the peak that kernels of a training step reach: matrix products of
// a large model run at `flops` times `product_efficiency`.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// Major compute capability of Hopper, the first generation with cuDNN's fast attention.
inline constexpr int kHopper = 9;

struct DeviceProfile {
  std::string name;
  c10::DeviceType type = c10::kCUDA;
  int generation = 0;                        ///< major compute capability of a GPU
  int64_t memory_bytes = 0;                  ///< available to tensors
  double half_flops = 0;                     ///< per second, bfloat16 and float16, dense
  double float_flops = 0;                    ///< per second, float32
  double memory_speed = 0;                   ///< bytes per second that kernels read and write
  double link_speed = 0;                     ///< bytes per second to the host
  double product_efficiency = 1;             ///< of matrix products
  double attention_efficiency = 1;           ///< of fused attention over long rows, forward
  double attention_backward_efficiency = 1;  ///< the same, backward
  double attention_half_length = 0;          ///< row length that reaches half the efficiency
  double launch_ns = 0;                      ///< least time of an operator

  double flops(at::ScalarType values) const {
    return values == at::kBFloat16 || values == at::kHalf ? half_flops : float_flops;
  }
};

/// The built-in profiles: h200, h100, a100 and others.
REPRISE_API const std::vector<DeviceProfile>& known_devices();

/// A built-in profile by name, or "cpu" or "cuda": this machine's, measured in a fraction of a
/// second. For any other name, throws and lists the known ones.
REPRISE_API DeviceProfile device_profile(const std::string& name);

}  // namespace reprise
