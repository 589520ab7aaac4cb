// The one check after every kernel launch. A launch only reports what is wrong with itself (sizes,
// no kernel for this device) or with work before it; faults of its own run appear later.
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

/// To be called right after a launch; clears the error, so that it is reported once.
inline void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

}  // namespace reprise::cuda
