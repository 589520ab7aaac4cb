// The loss of a reward model on pairs, and the scale of the rewards that it gives.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace reprise {

enum class RewardLoss : uint8_t {
  LogSigmoid,  ///< sigmoid: -log sigmoid(chosen - rejected - margin)
  LogExp,      ///< logexp: log(1 + exp(rejected - chosen)); the same without a margin
};

/// Throws listing the names there are.
REPRISE_API RewardLoss parse_reward_loss(std::string_view name);

struct RewardOptions {
  RewardLoss loss = RewardLoss::LogSigmoid;
  double centering = 0.0;  ///< times mean((chosen + rejected)^2): keeps rewards around 0
};

struct RewardResult {
  at::Tensor loss;      ///< scalar: mean over pairs
  at::Tensor accuracy;  ///< scalar, detached: share of pairs whose chosen reward is larger
  at::Tensor margin;    ///< scalar, detached: mean of chosen - rejected
};

/// chosen, rejected and margin (B); margin is undefined if there is none, and must be with LogExp.
/// Computed in float32 or wider.
REPRISE_API RewardResult reward_loss(const at::Tensor& chosen,
                                     const at::Tensor& rejected,
                                     const at::Tensor& margin = {},
                                     const RewardOptions& options = {});

/// Mean and deviation of rewards that come batch by batch, stable however many they are. What
/// another system normalises this model's rewards by.
struct REPRISE_API RewardMoments {
  int64_t count = 0;
  double mean = 0;
  double squares = 0;  ///< sum of squared distances from the mean

  void add(const at::Tensor& rewards);  ///< any shape; waits for its device
  void add(const RewardMoments& other);
  /// With Bessel's correction and at least 1e-8, so that it can be divided by.
  double deviation() const;
};

}  // namespace reprise
