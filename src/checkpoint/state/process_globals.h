// Process-wide settings that change what operators compute. A recompute cannot restore them,
// because other threads use them too, so it checks that they have not changed.
#pragma once

#include <ATen/Context.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <string>

namespace reprise::detail {

class ProcessGlobals {
 public:
  /// Captures the current values.
  ProcessGlobals();

  bool operator==(const ProcessGlobals&) const = default;

  /// Lists what differs, e.g. "deterministic algorithms: off in forward, on now".
  std::string difference(const ProcessGlobals& now) const;

 private:
  c10::ScalarType default_dtype_;
  int threads_;  // sums over threads depend on their number
  // On-off switches, in the order of kSwitchNames in the .cpp.
  std::array<bool, 17> switches_;
  std::array<at::CuBLASReductionOption, 2> cublas_reduction_;  // fp16, bf16
  // Float32 precision of oneDNN's and CUDA's matmuls, convolutions and recurrent layers.
  std::array<at::Float32Precision, 6> float32_precision_;
};

}  // namespace reprise::detail
