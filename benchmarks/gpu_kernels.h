// The choice of attention kernel: cuDNN's is the fastest on Hopper, but its backward is not
// deterministic.
#pragma once

#include "gpu_model.h"

#include <reprise/model/attention_kernels.h>

#include <cstdint>
#include <string>

namespace gpu {

inline void choose_kernels(bool is_deterministic) {
  using reprise::AttentionKernel;
  reprise::choose_kernels(
      {.attention = is_deterministic ? AttentionKernel::Flash : AttentionKernel::Cudnn,
       .is_deterministic = is_deterministic});
}

/// The attention kernel that LibTorch uses for heads of this shape, to be reported with the
/// results.
inline std::string attention_of(const Shape& shape, int64_t seq, const at::TensorOptions& options) {
  return reprise::served_attention(
      {.heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim, .length = seq},
      options);
}

}  // namespace gpu
