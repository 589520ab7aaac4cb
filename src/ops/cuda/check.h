// The check after every kernel launch. A launch reports only its own errors (sizes, no kernel for
// this device) and faults of earlier work; a fault while the kernel runs appears later.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace reprise::cuda {

/// Throws if the call failed, naming what was attempted.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string("[cuda] ") + what + ": " + cudaGetErrorString(status));
  }
}

/// Call right after a launch. Clears the error, so that it is reported once.
inline void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

}  // namespace reprise::cuda
