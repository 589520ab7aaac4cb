// The loss of a reward model on pairs, and running moments of its rewards.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace reprise {

enum class RewardLoss : uint8_t {
  LogSigmoid,  ///< sigmoid: -log sigmoid(chosen - rejected - margin)
  LogExp,      ///< logexp: log(1 + exp(rejected - chosen)), the same without margin
};

/// Throws for an unknown name and lists the known ones.
REPRISE_API RewardLoss parse_reward_loss(std::string_view name);

struct RewardOptions {
  RewardLoss loss = RewardLoss::LogSigmoid;
  double centering =
      0.0;  ///< coefficient of mean((chosen + rejected)^2), which centers rewards at 0
};

struct RewardResult {
  at::Tensor loss;      ///< scalar: mean over pairs
  at::Tensor accuracy;  ///< scalar, detached: share of pairs with chosen > rejected
  at::Tensor margin;    ///< scalar, detached: mean of chosen - rejected
};

/// chosen, rejected and margin (B). Without margins, and always for LogExp, margin is undefined.
/// Computed in float32, or in float64 if the input is.
REPRISE_API RewardResult reward_loss(const at::Tensor& chosen,
                                     const at::Tensor& rejected,
                                     const at::Tensor& margin = {},
                                     const RewardOptions& options = {});

/// Running mean and standard deviation of rewards that arrive in batches (numerically stable).
/// Other systems use them to normalise the rewards of this model.
struct REPRISE_API RewardMoments {
  int64_t count = 0;
  double mean = 0;
  double squares = 0;  ///< sum of squared deviations from the mean

  void add(const at::Tensor& rewards);  ///< any shape; waits for the device
  void add(const RewardMoments& other);
  /// Standard deviation with Bessel's correction; at least 1e-8, so that it can be a divisor.
  double deviation() const;
};

}  // namespace reprise
