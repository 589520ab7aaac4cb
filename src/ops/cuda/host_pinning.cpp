// Pins memory of exact sizes: LibTorch's allocator of pinned memory rounds up to powers of two.
#include "memory/host_memory.h"

#include <cuda_runtime_api.h>

namespace reprise::cuda {

namespace {

const char* pin(void* data, size_t bytes) {
  const cudaError_t error = cudaHostRegister(data, bytes, cudaHostRegisterPortable);
  if (error == cudaSuccess) {
    return nullptr;
  }
  cudaGetLastError();  // so that the next kernel launch does not report it
  return cudaGetErrorString(error);
}

// The driver may have shut down before the last tensor is freed; then nothing is pinned any more.
void unpin(void* data) {
  if (cudaHostUnregister(data) != cudaSuccess) {
    cudaGetLastError();
  }
}

[[maybe_unused]] const bool is_provided = [] {
  memory::provide_host_pinning({.pin = pin, .unpin = unpin});
  return true;
}();

}  // namespace

}  // namespace reprise::cuda
