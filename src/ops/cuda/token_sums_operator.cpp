#include "ops/cuda/tensors.h"
#include "ops/reference.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

namespace reprise::cuda {

namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> token_sums(const at::Tensor& logits,
                                                                      const at::Tensor& targets,
                                                                      double scale,
                                                                      bool has_entropy) {
  if (!has_kernel(logits) || !logits.is_contiguous()) {
    return ops::reference::token_sums(logits, targets, scale, has_entropy);
  }
  const c10::DeviceGuard device(logits.device());
  const auto row_values = [&](int64_t rows) {
    return at::empty({rows}, logits.options().dtype(at::kFloat));
  };
  const int64_t rows = logits.size(0);
  auto logprobs = row_values(rows), log_sums = row_values(rows), hits = row_values(rows);
  auto entropies = row_values(has_entropy ? rows : 0);
  const auto places = targets.contiguous();
  launch(CrossEntropy{.type = type_of(logits),
                      // Read only, with keep_logits.
                      .logits = const_cast<void*>(logits.const_data_ptr()),
                      .targets = places.const_data_ptr<int64_t>(),
                      .losses = logprobs.mutable_data_ptr<float>(),
                      .log_sums = log_sums.mutable_data_ptr<float>(),
                      .entropies = has_entropy ? entropies.mutable_data_ptr<float>() : nullptr,
                      .hits = hits.mutable_data_ptr<float>(),
                      .rows = rows,
                      .width = logits.size(1),
                      .scale = static_cast<float>(scale),
                      .weighted = false,
                      .keep_logits = true},
         stream_of(logits));
  return {logprobs.neg_(), log_sums, entropies, hits};
}

// As the kernel reads it; null if there is none.
const float* numbers_of(const std::optional<at::Tensor>& values, at::Tensor& room) {
  if (!values) {
    return nullptr;
  }
  room = values->to(at::kFloat).contiguous();
  return room.const_data_ptr<float>();
}

void token_slopes_(at::Tensor& logits,
                   const at::Tensor& targets,
                   const at::Tensor& log_sums,
                   const std::optional<at::Tensor>& entropies,
                   const std::optional<at::Tensor>& grad_logprobs,
                   const std::optional<at::Tensor>& grad_entropies,
                   double scale) {
  if (!has_kernel(logits) || !logits.is_contiguous()) {
    ops::reference::token_slopes_(
        logits, targets, log_sums, entropies, grad_logprobs, grad_entropies, scale);
    return;
  }
  const c10::DeviceGuard device(logits.device());
  const auto places = targets.contiguous();
  at::Tensor sums, entropy, grad, grad_entropy;
  launch(TokenSlopes{.type = type_of(logits),
                     .logits = logits.mutable_data_ptr(),
                     .targets = places.const_data_ptr<int64_t>(),
                     .log_sums = numbers_of(log_sums, sums),
                     .entropies = numbers_of(entropies, entropy),
                     .grad_logprobs = numbers_of(grad_logprobs, grad),
                     .grad_entropies = numbers_of(grad_entropies, grad_entropy),
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
