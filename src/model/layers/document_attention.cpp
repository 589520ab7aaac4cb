#include "model/layers/document_attention.h"

#include "memory/planned_device.h"
#include "ops/kernel_facts.h"

#include <reprise/model/attention_kernels.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_flash_attention_forward.h>

namespace reprise {

namespace {

// (B, heads, T, d) -> (B * T, heads, d), in the type of attention. Autocast does not know the
// operator, so its cast for scaled_dot_product_attention is done here.
at::Tensor tokens_of(const at::Tensor& x) {
  const auto type = attention_type(x.scalar_type(), memory::kernel_type(x.device()));
  return x.to(type).transpose(1, 2).flatten(0, 1);
}

}  // namespace

bool fits_documents(const DocumentFacts& facts) {
  const bool is_half = facts.type == at::kBFloat16 || facts.type == at::kHalf;
  return facts.device == c10::kCUDA && is_half && facts.head_dim <= ops::kFlashMaxHeadDim &&
         facts.head_dim % ops::kFlashHeadDimMultiple == 0 && facts.dropout == 0 && !facts.has_cache;
}

bool serves_documents(const ModelConfig& config, const DocumentFacts& facts) {
  if (!fits_documents(facts) || !at::globalContext().userEnabledFlashSDP()) {
    return false;
  }
  if (memory::planned_device().type == facts.device) {
    return true;  // planned for a GPU that may be absent
  }
  // Asked last, since it makes tensors. Every kernel takes this length.
  const auto kernel = served_attention({.heads = config.heads,
                                        .kv_heads = config.kv_heads,
                                        .head_dim = config.head_dim,
                                        .length = 64},
                                       at::device(facts.device).dtype(facts.type));
  // Where cuDNN's kernel serves, flash does too.
  return kernel == "flash" || kernel == "cudnn";
}

at::ScalarType attention_type(at::ScalarType type, c10::DeviceType device) {
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : type;
}

at::Tensor document_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const DocumentRuns& runs,
                              double scale) {
  // The kernel's window does not count the token itself.
  const bool cuts = runs.window > 0 && runs.window < runs.longest;
  const auto result = at::_flash_attention_forward(tokens_of(q),
                                                   tokens_of(k),
                                                   tokens_of(v),
                                                   runs.starts,
                                                   runs.starts,
                                                   runs.longest,
                                                   runs.longest,
                                                   /*dropout_p=*/0.0,
                                                   /*is_causal=*/true,
                                                   /*return_debug_mask=*/false,
                                                   scale,
                                                   cuts ? runs.window - 1 : -1,
                                                   /*window_size_right=*/0);
  return std::get<0>(result).unflatten(0, {q.size(0), q.size(2)});
}

}  // namespace reprise
