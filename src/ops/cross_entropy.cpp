#include "ops/cross_entropy.h"

#include "ops/kernel_allocations.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <reprise/ops/cuda_kernels.h>

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <tuple>

namespace reprise::ops {

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_(at::Tensor& logits,
                                                              const at::Tensor& targets,
                                                              bool weighted) {
  const auto wide = logits.to(wide_type(logits));
  const auto at_targets = targets.unsqueeze(1);
  const auto hits = (wide.argmax(1) == targets).to(wide.scalar_type());
  const auto logp = wide.log_softmax(1);
  auto slopes = logp.exp();
  // 0 log 0 is 0.
  const auto entropies = at::xlogy(slopes, slopes).sum(1).neg_();
  const auto target_logp = logp.gather(1, at_targets);
  const auto weights = weighted ? target_logp.exp() : at::ones_like(target_logp);
  slopes.mul_(weights).scatter_add_(1, at_targets, weights.neg());
  logits.copy_(slopes);
  return {(target_logp * weights).squeeze(1).neg_(), entropies, hits};
}

}  // namespace reference

bool has_cross_entropy_kernel(const at::Tensor& logits) {
  const auto device = logits.device();
  const bool has_kernels =
      device.is_meta() ? memory::is_for_cuda(device) : device.is_cuda() && load_cuda_kernels();
  return has_kernels && are_kernel_types(logits);
}

RowLosses cross_entropy_(at::Tensor& logits, const at::Tensor& targets, bool weighted) {
  static const auto op =
      find_operator<decltype(reference::cross_entropy_)>("reprise::cross_entropy_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto [losses, entropies, hits] = op.call(logits, targets, weighted);
  return {.losses = losses, .entropies = entropies, .hits = hits};
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "cross_entropy_(Tensor(a!) logits, Tensor targets, bool weighted) -> (Tensor losses, Tensor "
      "entropies, Tensor hits)");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("cross_entropy_", reference::cross_entropy_);
}

}  // namespace reprise::ops
