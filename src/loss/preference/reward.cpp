// Pairwise reward losses, and running moments.
#include <reprise/loss/reward.h>

#include "loss/enum_names.h"
#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace reprise {

namespace {

constexpr double kLeastDeviation = 1e-8;

constexpr std::array<EnumName<RewardLoss>, 2> kRewardLosses = {
    {{"sigmoid", RewardLoss::LogSigmoid}, {"logexp", RewardLoss::LogExp}}};

void check(const at::Tensor& chosen,
           const at::Tensor& rejected,
           const at::Tensor& margin,
           const RewardOptions& options) {
  TORCH_CHECK(chosen.dim() == 1 && chosen.numel() > 0 && rejected.sizes() == chosen.sizes(),
              "[reward] expected rewards of chosen and rejected responses, (B) each with B > 0, "
              "found ",
              chosen.sizes(),
              " and ",
              rejected.sizes());
  TORCH_CHECK(!margin.defined() || margin.sizes() == chosen.sizes(),
              "[reward] expected a margin for each pair, ",
              chosen.sizes(),
              ", found ",
              margin.sizes());
  TORCH_CHECK(!margin.defined() || options.loss == RewardLoss::LogSigmoid,
              "[reward] logexp has no margin. Use sigmoid, which is the same loss without margins");
  TORCH_CHECK(options.centering >= 0 && std::isfinite(options.centering),
              "[reward] the centering coefficient must not be negative, found ",
              options.centering);
}

}  // namespace

RewardLoss parse_reward_loss(std::string_view name) {
  return parse_enum<RewardLoss>("reward loss", name, kRewardLosses);
}

RewardResult reward_loss(const at::Tensor& chosen,
                         const at::Tensor& rejected,
                         const at::Tensor& margin,
                         const RewardOptions& options) {
  check(chosen, rejected, margin, options);
  const auto better = upcast(chosen);
  const auto worse = upcast(rejected);
  const auto difference = better - worse;
  RewardResult result;
  // log(1 + exp(-x)) equals -log sigmoid(x), but overflows for large negative x.
  result.loss =
      -at::log_sigmoid(margin.defined() ? difference - margin.to(difference.options()) : difference)
           .mean();
  if (options.centering > 0) {
    result.loss = result.loss + options.centering * (better + worse).square().mean();
  }
  result.accuracy = (difference.detach() > 0).to(difference.scalar_type()).mean();
  result.margin = difference.detach().mean();
  return result;
}

void RewardMoments::add(const at::Tensor& rewards) {
  if (rewards.numel() == 0) {
    return;
  }
  const auto values = rewards.detach().to(at::kDouble);
  RewardMoments batch;
  batch.count = values.numel();
  batch.mean = values.mean().item<double>();
  batch.squares = (values - batch.mean).square().sum().item<double>();
  add(batch);
}

// The parallel update of Chan, Golub and LeVeque.
void RewardMoments::add(const RewardMoments& other) {
  const int64_t total = count + other.count;
  if (other.count == 0) {
    return;
  }
  const double share = static_cast<double>(other.count) / static_cast<double>(total);
  const double distance = other.mean - mean;
  mean += distance * share;
  squares += other.squares + distance * distance * share * static_cast<double>(count);
  count = total;
}

double RewardMoments::deviation() const {
  TORCH_CHECK(count > 1, "[reward] a standard deviation needs at least two rewards, found ", count);
  return std::max(std::sqrt(squares / static_cast<double>(count - 1)), kLeastDeviation);
}

}  // namespace reprise
