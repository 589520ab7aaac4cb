// reprise::token_sums and reprise::token_slopes_ on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

namespace reprise::cuda {

namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> token_sums(const at::Tensor& logits,
                                                                      const at::Tensor& targets,
                                                                      double scale,
                                                                      bool has_entropy) {
  if (!ops::serves_logits(logits)) {
    return ops::reference::token_sums(logits, targets, scale, has_entropy);
  }
  const c10::DeviceGuard device(logits.device());
  const auto [logprobs, log_sums, entropies, hits] = ops::token_sums_tensors(logits, has_entropy);
  const auto ids = targets.contiguous();
  launch(CrossEntropy{.type = type_of(logits),
                      // With keep_logits the kernel only reads them.
                      .logits = const_cast<void*>(logits.const_data_ptr()),
                      .targets = ids.const_data_ptr<int64_t>(),
                      .losses = logprobs.mutable_data_ptr<float>(),
                      .log_sums = log_sums.mutable_data_ptr<float>(),
                      .entropies = has_entropy ? entropies.mutable_data_ptr<float>() : nullptr,
                      .hits = hits.mutable_data_ptr<float>(),
                      .rows = logits.size(0),
                      .width = logits.size(1),
                      .scale = static_cast<float>(scale),
                      .weighted = false,
                      .keep_logits = true},
         stream_of(logits));
  return {logprobs.neg_(), log_sums, entropies, hits};
}

// The values as contiguous float32 numbers, which `owner` keeps alive; null if there are none.
const float* floats_of(const std::optional<at::Tensor>& values, at::Tensor& owner) {
  if (!values) {
    return nullptr;
  }
  owner = values->to(at::kFloat).contiguous();
  return owner.const_data_ptr<float>();
}

void token_slopes_(at::Tensor& logits,
                   const at::Tensor& targets,
                   const at::Tensor& log_sums,
                   const std::optional<at::Tensor>& entropies,
                   const std::optional<at::Tensor>& grad_logprobs,
                   const std::optional<at::Tensor>& grad_entropies,
                   double scale) {
  if (!ops::serves_logits(logits)) {
    ops::reference::token_slopes_(
        logits, targets, log_sums, entropies, grad_logprobs, grad_entropies, scale);
    return;
  }
  const c10::DeviceGuard device(logits.device());
  const auto ids = targets.contiguous();
  at::Tensor sums, entropy, grad, grad_entropy;
  launch(TokenSlopes{.type = type_of(logits),
                     .logits = logits.mutable_data_ptr(),
                     .targets = ids.const_data_ptr<int64_t>(),
                     .log_sums = floats_of(log_sums, sums),
                     .entropies = floats_of(entropies, entropy),
                     .grad_logprobs = floats_of(grad_logprobs, grad),
                     .grad_entropies = floats_of(grad_entropies, grad_entropy),
                     .rows = logits.size(0),
                     .width = logits.size(1),
                     .scale = static_cast<float>(scale)},
         stream_of(logits));
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("token_sums", token_sums);
  library.impl("token_slopes_", token_slopes_);
}

}  // namespace reprise::cuda
