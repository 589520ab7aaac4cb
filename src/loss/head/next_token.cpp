#include <reprise/loss/next_token.h>

#include <ATen/ATen.h>

namespace reprise {

namespace {

void check(const at::Tensor& logits, const at::Tensor& labels) {
  TORCH_CHECK(logits.dim() == 3 && labels.dim() == 2 && logits.size(0) == labels.size(0) &&
                  logits.size(1) == labels.size(1) && labels.size(1) > 1,
              "[loss] expected logits (B, T, V) and labels (B, T) with T > 1, got ",
              logits.sizes(),
              " and ",
              labels.sizes());
}

}  // namespace

at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels) {
  check(logits, labels);
  // Shifts the labels, not the logits, which would have to be copied and are large.
  const auto targets = at::constant_pad_nd(labels, {0, 1}, kIgnoredLabel).slice(1, 1);
  return at::cross_entropy_loss(logits.to(at::kFloat).flatten(0, 1),
                                targets.flatten(),
                                /*weight=*/{},
                                at::Reduction::Mean,
                                kIgnoredLabel);
}

}  // namespace reprise
