// Per-token rewards, returns and advantages from the scores of whole completions: PPO, REINFORCE++.
//
// Tensors are (B, T), where column 0 is the first completion token and each row of a mask is ones
// followed by zeros. Values outside the mask may be anything, even NaN, and become 0. A row whose
// mask is all zeros is a completion to ignore, whatever its score. Results are float32 and
// detached, and no function waits for the device.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace reprise {

/// Which tokens get the score of a completion as reward.
enum class ScorePlace : uint8_t {
  LastToken,   ///< last_token
  EveryToken,  ///< every_token, as in ColossalChat
};

/// Throws for an unknown name and lists the known ones.
REPRISE_API ScorePlace parse_score_place(std::string_view name);

struct TokenRewardOptions {
  double kl_coef = 0.0;  ///< times the KL, subtracted from each token's reward
  ScorePlace place = ScorePlace::LastToken;
  /// Range for scores. OpenRLHF's --reward_clip_range is (-10, 10), ColossalChat's is (-5, 5).
  std::optional<std::pair<double, double>> score_clip = {};
};

/// Throws if an option is out of range.
REPRISE_API void validate(const TokenRewardOptions& options);

/// Returns (B, T). scores (B), kl (B, T) from kl_estimate() (may be undefined if kl_coef is 0),
/// mask (B, T).
REPRISE_API at::Tensor token_rewards(const at::Tensor& scores,
                                     const at::Tensor& kl,
                                     const at::Tensor& mask,
                                     const TokenRewardOptions& options);

/// TRL's missing_eos_penalty: returns scores (B) minus the penalty where is_finished (B) is false.
REPRISE_API at::Tensor with_missing_eos_penalty(const at::Tensor& scores,
                                                const at::Tensor& is_finished,
                                                double penalty);

/// DAPO's soft overlong punishment: 0 up to max_length - buffer tokens, then rising linearly to
/// `factor` at max_length.
struct OverlongPenalty {
  int64_t max_length;  ///< of a completion, in tokens
  int64_t buffer;      ///< in tokens, in [1, max_length]
  double factor = 1.0;
};

/// Throws if a value is out of range.
REPRISE_API void validate(const OverlongPenalty& penalty);

/// Returns scores (B) minus the penalty for lengths (B), in tokens.
REPRISE_API at::Tensor with_overlong_penalty(const at::Tensor& scores,
                                             const at::Tensor& lengths,
                                             const OverlongPenalty& penalty);

/// Returns (B, T): the sum of each token's reward and all later ones, discounted by gamma per
/// token.
REPRISE_API at::Tensor discounted_returns(const at::Tensor& rewards,
                                          const at::Tensor& mask,
                                          double gamma);

struct AdvantagesAndReturns {
  at::Tensor advantages;
  at::Tensor returns;  ///< advantages + values: the targets of the value model
};

/// Generalised advantage estimation (GAE). The value after the last token of a completion is 0.
REPRISE_API AdvantagesAndReturns generalized_advantages(const at::Tensor& values,
                                                        const at::Tensor& rewards,
                                                        const at::Tensor& mask,
                                                        double gamma,
                                                        double lambda);

/// How whitening scales, by the system whose results it reproduces.
enum class Whitening : uint8_t {
  OpenRlhf,  ///< biased: 1 / sqrt(max(sum of squares / n, 1e-8))
  Trl,       ///< unbiased: 1 / sqrt(sum of squares / (n - 1) + 1e-8)
  MeanOnly,  ///< 1: no scaling, OpenRLHF's no_std_norm
};

/// Normalises the values inside the mask to mean 0 and standard deviation 1. With keep_mean the
/// mean is added back, as TRL's PPO does for rewards.
REPRISE_API at::Tensor whitened(const at::Tensor& values,
                                const at::Tensor& mask,
                                Whitening whitening,
                                bool keep_mean = false);

}  // namespace reprise
