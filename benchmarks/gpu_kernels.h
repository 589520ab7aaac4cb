// Which kernels LibTorch takes where it has several: cuDNN's attention is the fastest on Hopper,
// but its backward adds in an order of its own.
#pragma once

#include "gpu_model.h"

#include <reprise/attention_kernels.h>

#include <cstdint>
#include <string>

namespace gpu {

inline void choose_kernels(bool is_deterministic) {
  using reprise::AttentionKernel;
  reprise::choose_kernels(
      {.attention = is_deterministic ? AttentionKernel::Flash : AttentionKernel::Cudnn,
       .is_deterministic = is_deterministic});
}

/// Which attention LibTorch takes for heads of this shape, so that a run can be trusted.
inline std::string attention_of(const Shape& shape, int64_t seq, const at::TensorOptions& options) {
  return reprise::served_attention(
      {.heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim, .length = seq},
      options);
}

}  // namespace gpu
