// From scores of completions to rewards, returns and advantages of their tokens: PPO, REINFORCE++.
//
// Shapes are (B, T), where column 0 is the first completion token and a mask is ones followed by
// zeros in each row. What the mask leaves out may hold anything, even NaN, and comes out as 0; a
// row of zeros only is a completion that shall not count, whatever its score. Everything is float32
// and detached, and nothing waits for the device.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace reprise {

/// Where a completion's score becomes a reward.
enum class ScorePlace : uint8_t {
  LastToken,   ///< last_token
  EveryToken,  ///< every_token: ColossalChat's
};

/// Throws listing the names there are.
REPRISE_API ScorePlace parse_score_place(std::string_view name);

struct TokenRewardOptions {
  double kl_coef = 0.0;  ///< each token's reward loses this times its KL
  ScorePlace place = ScorePlace::LastToken;
  /// OpenRLHF's --reward_clip_range is (-10, 10), ColossalChat's (-5, 5).
  std::optional<std::pair<double, double>> score_clip = {};
};

/// Throws if an option is out of range.
REPRISE_API void validate(const TokenRewardOptions& options);

/// (B, T), of scores (B), kl (B, T) as kl_estimate gives it (may be undefined if kl_coef is 0) and
/// mask (B, T).
REPRISE_API at::Tensor token_rewards(const at::Tensor& scores,
                                     const at::Tensor& kl,
                                     const at::Tensor& mask,
                                     const TokenRewardOptions& options);

/// TRL's missing_eos_penalty, (B): subtracted where is_finished (B) is false.
REPRISE_API at::Tensor with_missing_eos_penalty(const at::Tensor& scores,
                                                const at::Tensor& is_finished,
                                                double penalty);

/// OpenRLHF's stop_properly_penalty_coef, (B): scores of what is not finished are multiplied by a
/// coefficient in [0, 1], or become it if it is negative.
REPRISE_API at::Tensor with_stop_penalty(const at::Tensor& scores,
                                         const at::Tensor& is_finished,
                                         double coefficient);

/// DAPO's soft punishment: nothing up to max_length - buffer tokens, then growing to `factor`.
struct OverlongPenalty {
  int64_t max_length;  ///< of a completion, in tokens
  int64_t buffer;
  double factor = 1.0;
};

REPRISE_API void validate(const OverlongPenalty& penalty);

/// (B), of scores (B) and lengths (B) in tokens.
REPRISE_API at::Tensor with_overlong_penalty(const at::Tensor& scores,
                                             const at::Tensor& lengths,
                                             const OverlongPenalty& penalty);

/// (B, T): each token's reward and the later ones, discounted by gamma a token.
REPRISE_API at::Tensor discounted_returns(const at::Tensor& rewards,
                                          const at::Tensor& mask,
                                          double gamma);

struct AdvantagesAndReturns {
  at::Tensor advantages;
  at::Tensor returns;  ///< advantages + values: what the value model is to predict
};

/// Generalised advantage estimation. Behind a completion's last token the value is 0.
REPRISE_API AdvantagesAndReturns generalized_advantages(const at::Tensor& values,
                                                        const at::Tensor& rewards,
                                                        const at::Tensor& mask,
                                                        double gamma,
                                                        double lambda);

/// Two systems, two estimates of the deviation.
enum class Whitening : uint8_t {
  OpenRlhf,  ///< biased: 1 / sqrt(max(sum of squares / n, 1e-8))
  Trl,       ///< unbiased: 1 / sqrt(sum of squares / (n - 1) + 1e-8)
  MeanOnly,  ///< 1: OpenRLHF's no_std_norm
};

/// All that counts, brought to mean 0 and deviation 1. With keep_mean its mean is added again,
/// which is how TRL's PPO whitens rewards.
REPRISE_API at::Tensor whitened(const at::Tensor& values,
                                const at::Tensor& mask,
                                Whitening whitening,
                                bool keep_mean = false);

}  // namespace reprise
