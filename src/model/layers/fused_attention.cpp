#include "model/layers/fused_attention.h"

#include "memory/planned_device.h"
#include "model/layers/document_attention.h"
#include "ops/kernel_facts.h"

#include <reprise/device_profile.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>

#include <algorithm>
#include <limits>

namespace reprise {

namespace {

using at::SDPBackend;

// LibTorch's own choice for a CPU, which depends on sizes, types and settings, never on values.
SDPBackend choice_for_cpu(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const AttentionOptions& options) {
  return static_cast<SDPBackend>(
      at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              q,
                                              k,
                                              v,
                                              options.mask,
                                              options.dropout,
                                              options.is_causal,
                                              options.scale,
                                              options.enable_gqa));
}

// For a GPU that may be absent: the first kernel in the order of preference that serves.
SDPBackend choice_for_gpu(const at::Tensor& q, const AttentionOptions& options) {
  const bool is_half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  const bool is_flash = is_half && !options.mask && q.size(-1) <= ops::kFlashMaxHeadDim;
  auto& context = at::globalContext();
  const auto serves = [&](SDPBackend backend) {
    switch (backend) {
      case SDPBackend::flash_attention:
        return is_flash && context.userEnabledFlashSDP();
      case SDPBackend::cudnn_attention:
        return is_flash && q.size(-1) <= ops::kCudnnMaxHeadDim && context.userEnabledCuDNNSDP() &&
               memory::planned_device().generation >= kHopper;
      case SDPBackend::efficient_attention:
        return !options.enable_gqa && q.scalar_type() != at::kDouble &&
               context.userEnabledMemEfficientSDP();
      case SDPBackend::math:
        return true;
      default:
        return false;
    }
  };
  const auto order = context.sDPPriorityOrder();
  const auto* found = std::find_if(order.begin(), order.end(), serves);
  return found == order.end() ? SDPBackend::math : *found;
}

// A mask as numbers that are added to the scores.
std::optional<at::Tensor> as_bias(const std::optional<at::Tensor>& mask, const at::Tensor& q) {
  if (!mask) {
    return std::nullopt;
  }
  const auto number = [&](double value) {
    return at::scalar_tensor(value, q.options().requires_grad(false));
  };
  return at::where(*mask, number(0), number(-std::numeric_limits<double>::infinity()));
}

at::Tensor flash_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionOptions& options) {
  constexpr int64_t kMultiple = ops::kFlashHeadDimMultiple;
  const int64_t width = q.size(-1), lacking = (kMultiple - width % kMultiple) % kMultiple;
  const auto padded = [&](const at::Tensor& x) {
    return lacking == 0 ? x : at::constant_pad_nd(x, {0, lacking});
  };
  const auto y = std::get<0>(at::_scaled_dot_product_flash_attention(padded(q),
                                                                     padded(k),
                                                                     padded(v),
                                                                     options.dropout,
                                                                     options.is_causal,
                                                                     /*return_debug_mask=*/false,
                                                                     options.scale));
  return lacking == 0 ? y : y.narrow(-1, 0, width);
}

at::Tensor planned_attention(const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const AttentionOptions& options) {
  const bool is_cpu = memory::kernel_type(q.device()) == c10::kCPU;
  const bool needs_grad =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const auto choice = is_cpu ? choice_for_cpu(q, k, v, options) : choice_for_gpu(q, options);
  switch (choice) {
    case SDPBackend::flash_attention:
      return is_cpu ? std::get<0>(
                          at::_scaled_dot_product_flash_attention_for_cpu(q,
                                                                          k,
                                                                          v,
                                                                          options.dropout,
                                                                          options.is_causal,
                                                                          as_bias(options.mask, q),
                                                                          options.scale))
                    : flash_attention(q, k, v, options);
    case SDPBackend::cudnn_attention:
      return std::get<0>(at::_scaled_dot_product_cudnn_attention(q,
                                                                 k,
                                                                 v,
                                                                 std::nullopt,
                                                                 needs_grad,
                                                                 options.dropout,
                                                                 options.is_causal,
                                                                 /*return_debug_mask=*/false,
                                                                 options.scale));
    case SDPBackend::efficient_attention: {
      auto bias = as_bias(options.mask, q);
      if (bias) {
        bias = bias->expand({q.size(0), q.size(1), q.size(2), k.size(2)});
      }
      return std::get<0>(at::_scaled_dot_product_efficient_attention(
          q, k, v, bias, needs_grad, options.dropout, options.is_causal, options.scale));
    }
    default:
      return at::scaled_dot_product_attention(q,
                                              k,
                                              v,
                                              options.mask,
                                              options.dropout,
                                              options.is_causal,
                                              options.scale,
                                              options.enable_gqa);
  }
}

}  // namespace

at::Tensor fused_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionOptions& options) {
  if (q.is_meta()) {
    // Autocast ignores meta tensors, so they are converted here as it would.
    const auto type = attention_type(q.scalar_type(), memory::kernel_type(q.device()));
    return planned_attention(q.to(type), k.to(type), v.to(type), options);
  }
  return at::scaled_dot_product_attention(
      q, k, v, options.mask, options.dropout, options.is_causal, options.scale, options.enable_gqa);
}

}  // namespace reprise
