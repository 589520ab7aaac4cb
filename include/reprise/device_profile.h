// What a device can do, in the few numbers that predict the time of a training step: enough to plan
// a step for a device that is not here.
//
// Figures are those that kernels of a training step reach, not those of the data sheet: a product
// of a large model runs at `flops` times `product_efficiency`.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

struct DeviceProfile {
  std::string name;
  c10::DeviceType type = c10::kCUDA;
  int generation = 0;               ///< of a GPU: the first number of its compute capability
  int64_t memory_bytes = 0;         ///< that tensors may take
  double half_flops = 0;            ///< per second, bfloat16 and float16, dense
  double float_flops = 0;           ///< per second, float32
  double memory_speed = 0;          ///< bytes per second that kernels read and write
  double link_speed = 0;            ///< bytes per second to the host
  double product_efficiency = 1;    ///< of matrix products
  double attention_efficiency = 1;  ///< of fused attention over long rows, forward
  double attention_backward_efficiency = 1;  ///< and backward
  double attention_half_length = 0;          ///< rows so long reach half of it
  double launch_ns = 0;                      ///< least time of an operator

  double flops(at::ScalarType values) const {
    return values == at::kBFloat16 || values == at::kHalf ? half_flops : float_flops;
  }
};

/// The profiles that are known by name: h200, h100, a100, a100-40, l40s, rtx4090.
REPRISE_API const std::vector<DeviceProfile>& known_devices();

/// One of them, "cpu" (this machine, measured in a fraction of a second) or "cuda" (the GPU that is
/// here, measured too). Throws for any other name, and says which there are.
REPRISE_API DeviceProfile device_profile(const std::string& name);

}  // namespace reprise
