#include "model/fused_attention.h"

#include "model/document_attention.h"

#include <reprise/detail/planned_device.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>

#include <algorithm>
#include <limits>

namespace reprise {

namespace {

using at::SDPBackend;

constexpr int64_t kFlashMultiple = 8;  // values of a head, or it is padded
constexpr int kHopper = 9;             // where cuDNN has its kernel

// On a CPU LibTorch's own choice: it looks at sizes, types and settings, never at data.
SDPBackend choice_for_cpu(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const AttentionRules& rules) {
  return static_cast<SDPBackend>(
      at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              q,
                                              k,
                                              v,
                                              rules.mask,
                                              rules.dropout,
                                              rules.is_causal,
                                              rules.scale,
                                              rules.shares_heads));
}

// For a GPU that need not be here, by what its kernels serve: the first in the order of preference.
SDPBackend choice_for_gpu(const at::Tensor& q, const AttentionRules& rules) {
  const bool is_half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  const bool is_flash = is_half && !rules.mask && q.size(-1) <= 256;
  auto& context = at::globalContext();
  const auto serves = [&](SDPBackend backend) {
    switch (backend) {
      case SDPBackend::flash_attention:
        return is_flash && context.userEnabledFlashSDP();
      case SDPBackend::cudnn_attention:
        return is_flash && q.size(-1) <= 128 && context.userEnabledCuDNNSDP() &&
               detail::planned_device().generation >= kHopper;
      case SDPBackend::efficient_attention:
        return !rules.shares_heads && q.scalar_type() != at::kDouble &&
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

// A mask as numbers that are added to scores.
std::optional<at::Tensor> as_bias(const std::optional<at::Tensor>& mask, const at::Tensor& q) {
  if (!mask) {
    return std::nullopt;
  }
  return at::zeros_like(*mask, q.options().requires_grad(false))
      .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
}

at::Tensor flash_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionRules& rules) {
  const int64_t width = q.size(-1), lacking = (kFlashMultiple - width % kFlashMultiple) % 8;
  const auto padded = [&](const at::Tensor& x) {
    return lacking == 0 ? x : at::constant_pad_nd(x, {0, lacking});
  };
  const auto y = std::get<0>(at::_scaled_dot_product_flash_attention(padded(q),
                                                                     padded(k),
                                                                     padded(v),
                                                                     rules.dropout,
                                                                     rules.is_causal,
                                                                     /*return_debug_mask=*/false,
                                                                     rules.scale));
  return lacking == 0 ? y : y.narrow(-1, 0, width);
}

at::Tensor planned_attention(const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const AttentionRules& rules) {
  const bool is_cpu = detail::kernel_type(q.device()) == c10::kCPU;
  const bool needs_grad =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const auto choice = is_cpu ? choice_for_cpu(q, k, v, rules) : choice_for_gpu(q, rules);
  switch (choice) {
    case SDPBackend::flash_attention:
      return is_cpu ? std::get<0>(
                          at::_scaled_dot_product_flash_attention_for_cpu(q,
                                                                          k,
                                                                          v,
                                                                          rules.dropout,
                                                                          rules.is_causal,
                                                                          as_bias(rules.mask, q),
                                                                          rules.scale))
                    : flash_attention(q, k, v, rules);
    case SDPBackend::cudnn_attention:
      return std::get<0>(at::_scaled_dot_product_cudnn_attention(q,
                                                                 k,
                                                                 v,
                                                                 std::nullopt,
                                                                 needs_grad,
                                                                 rules.dropout,
                                                                 rules.is_causal,
                                                                 /*return_debug_mask=*/false,
                                                                 rules.scale));
    case SDPBackend::efficient_attention: {
      auto bias = as_bias(rules.mask, q);
      if (bias) {
        bias = bias->expand({q.size(0), q.size(1), q.size(2), k.size(2)});
      }
      return std::get<0>(at::_scaled_dot_product_efficient_attention(
          q, k, v, bias, needs_grad, rules.dropout, rules.is_causal, rules.scale));
    }
    default:
      return at::scaled_dot_product_attention(
          q, k, v, rules.mask, rules.dropout, rules.is_causal, rules.scale, rules.shares_heads);
  }
}

}  // namespace

at::Tensor fused_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionRules& rules) {
  if (q.is_meta()) {
    // Autocast does not know tensors without memory, so what it would convert is converted here.
    const auto type = attention_type(q.scalar_type(), detail::kernel_type(q.device()));
    return planned_attention(q.to(type), k.to(type), v.to(type), rules);
  }
  return at::scaled_dot_product_attention(
      q, k, v, rules.mask, rules.dropout, rules.is_causal, rules.scale, rules.shares_heads);
}

}  // namespace reprise
