// Which kernels LibTorch takes where it has several: cuDNN's attention is the fastest on Hopper,
// but its backward adds in an order of its own.
#pragma once

#include "gpu_model.h"

#include <ATen/Context.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace gpu {

inline void choose_kernels(bool is_deterministic) {
  auto& context = at::globalContext();
  if (is_deterministic) {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setSDPUseCuDNN(false);
    return;
  }
  context.setSDPUseCuDNN(true);
  std::vector<int64_t> order;
  for (const auto backend : {at::SDPBackend::cudnn_attention,
                             at::SDPBackend::flash_attention,
                             at::SDPBackend::efficient_attention,
                             at::SDPBackend::math,
                             at::SDPBackend::overrideable}) {
    order.push_back(static_cast<int64_t>(backend));
  }
  context.setSDPPriorityOrder(order);
}

/// Which attention LibTorch takes for heads of this shape, so that a run can be trusted.
inline std::string attention_of(const Shape& shape, int64_t seq, const at::TensorOptions& options) {
  const auto heads = [&](int64_t count) {
    return at::empty({1, count, seq, shape.head_dim}, options).requires_grad_();
  };
  const auto choice = at::_fused_sdp_choice(heads(shape.heads),
                                            heads(shape.kv_heads),
                                            heads(shape.kv_heads),
                                            /*attn_mask=*/{},
                                            /*dropout_p=*/0.0,
                                            /*is_causal=*/true,
                                            /*scale=*/std::nullopt,
                                            /*enable_gqa=*/true);
  const std::vector<std::string> names{"math", "flash", "efficient", "cudnn", "overrideable"};
  return choice < 0 ? "none" : names.at(static_cast<size_t>(choice));
}

}  // namespace gpu
