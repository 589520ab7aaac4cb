// From LibTorch's tensors to the arguments of our kernels.
#pragma once

#include "ops/cuda/kernels.h"

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

namespace reprise::cuda {

inline Type type_of(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == at::kBFloat16 ? Type::BFloat16 : type == at::kHalf ? Type::Half : Type::Float;
}

inline cudaStream_t stream_of(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

/// The size of all dimensions but the last.
inline int64_t rows_of(const at::Tensor& tensor) {
  return tensor.size(-1) == 0 ? 0 : tensor.numel() / tensor.size(-1);
}

}  // namespace reprise::cuda
