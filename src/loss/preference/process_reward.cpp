// Logits are computed only at the scored positions, and only for the reward tokens if these are
// given.
#include "loss/preference/process_reward.h"

#include "loss/upcast.h"
#include "model/layers/linear.h"

#include <ATen/ATen.h>

namespace reprise {

namespace {

at::Tensor index_of(const std::vector<int64_t>& tokens, const at::Tensor& beside) {
  return at::tensor(tokens, at::kLong).to(beside.device());
}

void check_tokens(const std::vector<int64_t>& tokens, int64_t vocabulary) {
  for (const int64_t token : tokens) {
    TORCH_CHECK(token >= 0 && token < vocabulary,
                "[prm] reward token ",
                token,
                " is not in the vocabulary of ",
                vocabulary);
  }
}

// Mean of `losses` (N) where `counts` is true, and how often `logits` agree with `labels`.
ProcessRewardResult result_of(const at::Tensor& losses,
                              const at::Tensor& logits,
                              const at::Tensor& labels,
                              const at::Tensor& counts) {
  const auto count = counts.sum();
  const auto divisor = count.clamp_min(1);
  const auto correct = (logits.detach().argmax(-1) == labels).logical_and(counts).sum();
  return {.loss = losses.sum() / divisor,
          .accuracy = correct.to(logits.scalar_type()) / divisor,
          .count = count};
}

}  // namespace

at::Tensor step_logits(const at::Tensor& hidden,
                       const LinearHead& head,
                       const at::Tensor& positions,
                       const std::vector<int64_t>& reward_tokens) {
  TORCH_CHECK(hidden.dim() == 3 && positions.dim() == 2 && positions.scalar_type() == at::kBool &&
                  positions.size(0) == hidden.size(0) && positions.size(1) == hidden.size(1),
              "[prm] expected hidden states (B, T, H) and a bool for each position, (B, T), found ",
              hidden.sizes(),
              " and ",
              positions.sizes());
  check_tokens(reward_tokens, head.weight.size(0));
  const auto rows = hidden.index({positions});
  auto weight = head.weight;
  auto bias = head.bias;
  if (!reward_tokens.empty()) {
    const auto tokens = index_of(reward_tokens, weight);
    weight = weight.index_select(0, tokens);
    bias = bias.defined() ? bias.index_select(0, tokens) : bias;
  }
  if (head.in_float32) {
    return shaped_logits(apply_linear(rows, weight, bias, Precision::Float32), head.shape);
  }
  const auto dtype = rows.scalar_type();
  const auto products = at::linear(rows, weight.to(dtype), bias.defined() ? bias.to(dtype) : bias);
  return shaped_logits(products.to(at::kFloat), head.shape);
}

at::Tensor reward_token_classes(const at::Tensor& labels,
                                const std::vector<int64_t>& reward_tokens) {
  TORCH_CHECK(reward_tokens.size() > 1, "[prm] expected at least two reward tokens");
  const auto matches = labels.unsqueeze(-1).eq(index_of(reward_tokens, labels));
  const auto ignored = labels.eq(kIgnoredLabel);
  const auto unknown = labels.masked_select(~(matches.any(-1).logical_or(ignored)));
  TORCH_CHECK(unknown.numel() == 0,
              "[prm] a step is labelled with token ",
              unknown[0].item<int64_t>(),
              ", which is not one of the reward tokens ",
              reward_tokens);
  return matches.to(at::kInt).argmax(-1).masked_fill(ignored, kIgnoredLabel);
}

ProcessRewardResult process_reward_loss(const at::Tensor& logits, const at::Tensor& labels) {
  TORCH_CHECK(logits.dim() > 1 && labels.scalar_type() == at::kLong &&
                  logits.sizes().slice(0, static_cast<size_t>(logits.dim()) - 1) == labels.sizes(),
              "[prm] expected logits (..., K) and int64 labels (...), found ",
              logits.sizes(),
              " and ",
              labels.sizes(),
              " of ",
              labels.dtype());
  const auto rows = upcast(logits).flatten(0, -2);
  const auto targets = labels.flatten();
  const auto losses =
      at::cross_entropy_loss(rows, targets, /*weight=*/{}, at::Reduction::None, kIgnoredLabel);
  return result_of(losses, rows, targets, targets.ne(kIgnoredLabel));
}

ProcessRewardResult soft_process_reward_loss(const at::Tensor& logits,
                                             const at::Tensor& probability) {
  TORCH_CHECK(logits.dim() == 2 && logits.size(1) == 2 && probability.dim() == 1 &&
                  probability.size(0) == logits.size(0),
              "[prm] expected logits (N, 2) of the good and the bad reward token and a probability "
              "for each step, (N), found ",
              logits.sizes(),
              " and ",
              probability.sizes(),
              ". Soft labels need exactly two reward tokens");
  const auto rows = upcast(logits);
  const auto good = probability.to(rows.options());
  const auto targets = at::stack({good, 1 - good}, -1);
  const auto losses = -(targets * rows.log_softmax(-1)).sum(-1);
  return result_of(losses, rows, targets.argmax(-1), at::ones_like(good, at::kBool));
}

}  // namespace reprise
