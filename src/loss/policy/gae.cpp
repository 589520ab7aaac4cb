// Discounted sums over the following tokens, and whitening. The recursion runs column by column,
// with a few small kernels each. A closed form with cumulative sums would be one kernel, but loses
// all precision where (gamma lambda)^T underflows.
#include <reprise/loss/returns.h>

#include "loss/masked.h"

#include <ATen/ATen.h>

namespace reprise {

namespace {

// Lower bound of the variance in both systems.
constexpr double kSmallestVariance = 1e-8;

void check_share(double value, const char* name) {
  TORCH_CHECK(value >= 0 && value <= 1, "[advantage] ", name, " must be in [0, 1], found ", value);
}

// y_t = x_t + factor * y_{t+1}, for x (B, T).
at::Tensor discounted_sums(const at::Tensor& x, double factor) {
  auto sums = at::empty_like(x);
  auto later = at::zeros({x.size(0)}, x.options());
  for (int64_t t = x.size(1) - 1; t >= 0; --t) {
    later = x.select(1, t) + factor * later;
    sums.select(1, t).copy_(later);
  }
  return sums;
}

}  // namespace

at::Tensor discounted_returns(const at::Tensor& rewards, const at::Tensor& mask, double gamma) {
  check_share(gamma, "gamma");
  const auto is_token = checked_mask("advantage", mask, {{"rewards", rewards}});
  return discounted_sums(masked(rewards.detach(), is_token), gamma);
}

AdvantagesAndReturns generalized_advantages(const at::Tensor& values,
                                            const at::Tensor& rewards,
                                            const at::Tensor& mask,
                                            double gamma,
                                            double lambda) {
  check_share(gamma, "gamma");
  check_share(lambda, "lambda");
  const auto is_token = checked_mask("advantage", mask, {{"values", values}, {"rewards", rewards}});
  const auto v = masked(values.detach(), is_token);
  const auto next = at::constant_pad_nd(v.slice(1, 1), {0, 1}, 0);
  const auto errors = masked(rewards.detach(), is_token) + gamma * next - v;
  const auto advantages = discounted_sums(errors, gamma * lambda);
  return {.advantages = advantages, .returns = advantages + v};
}

at::Tensor whitened(const at::Tensor& values,
                    const at::Tensor& mask,
                    Whitening whitening,
                    bool keep_mean) {
  const auto is_token = checked_mask("advantage", mask, {{"values", values}});
  const auto x = masked(values.detach(), is_token);
  const auto count = is_token.sum().to(x.scalar_type());
  const auto mean = x.sum() / count.clamp_min(1);
  const auto centered = (x - mean).masked_fill(~is_token, 0);
  const auto squares = centered.square().sum();
  at::Tensor result;
  switch (whitening) {
    case Whitening::OpenRlhf:
      result = centered * (squares / count.clamp_min(1)).clamp_min(kSmallestVariance).rsqrt();
      break;
    case Whitening::Trl:
      result = centered * (squares / (count - 1).clamp_min(1) + kSmallestVariance).rsqrt();
      break;
    case Whitening::MeanOnly:
      TORCH_CHECK(!keep_mean, "[advantage] whitening that keeps both mean and scale does nothing");
      result = centered;
      break;
  }
  return keep_mean ? (result + mean).masked_fill(~is_token, 0) : result;
}

}  // namespace reprise
