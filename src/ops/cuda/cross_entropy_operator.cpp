// reprise::cross_entropy_ on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_(at::Tensor& logits,
                                                              const at::Tensor& targets,
                                                              bool weighted) {
  if (!ops::serves_logits(logits)) {
    return ops::reference::cross_entropy_(logits, targets, weighted);
  }
  const c10::DeviceGuard device(logits.device());
  const auto [losses, entropies, hits] = ops::cross_entropy_tensors(logits);
  const auto ids = targets.contiguous();
  launch(CrossEntropy{.type = type_of(logits),
                      .logits = logits.mutable_data_ptr(),
                      .targets = ids.const_data_ptr<int64_t>(),
                      .losses = losses.mutable_data_ptr<float>(),
                      .log_sums = nullptr,
                      .entropies = entropies.mutable_data_ptr<float>(),
                      .hits = hits.mutable_data_ptr<float>(),
                      .rows = logits.size(0),
                      .width = logits.size(1),
                      .scale = 1.0f,
                      .weighted = weighted,
                      .keep_logits = false},
         stream_of(logits));
  return {losses, entropies, hits};
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("cross_entropy_", cross_entropy_);
}

}  // namespace reprise::cuda
