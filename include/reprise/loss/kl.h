// How far a policy has moved from its reference, estimated from the tokens that it sampled, and the
// controller that keeps it at a distance.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// With d = log-probability under the policy minus that under the reference.
enum class KlEstimator : uint8_t {
  K1,  ///< k1: d. Unbiased, may be negative; as a loss without a ratio its mean gradient is 0
  K2,  ///< k2: d^2 / 2. Biased, with the gradient of the reverse KL
  K3,  ///< k3: e^-d - 1 + d. Unbiased and never negative
};

/// Throws listing the names there are.
REPRISE_API KlEstimator parse_kl_estimator(std::string_view name);
REPRISE_API std::string_view name_of(KlEstimator estimator);

/// Of every token, in the shape of its inputs; differentiable by both. With `clamp` every estimate
/// is cut to [-clamp, clamp], which takes its gradient away there (OpenRLHF: 10; TRL: none).
REPRISE_API at::Tensor kl_estimate(const at::Tensor& logprobs,
                                   const at::Tensor& reference,
                                   KlEstimator estimator,
                                   std::optional<double> clamp = {});

/// Ziegler et al. 2019: the coefficient grows while the divergence is above the target and shrinks
/// while it is below, by at most a fifth in `horizon` samples. Of its state only `value` changes.
struct REPRISE_API AdaptiveKl {
  double value;   ///< the coefficient
  double target;  ///< divergence aimed at, in nats
  double horizon = 10000;

  /// Throws unless the target and the horizon are positive and the value is not negative.
  void validate() const;
  /// After `samples` samples whose mean divergence was `current`. One that is not finite changes
  /// nothing: the coefficient would never recover.
  void update(double current, int64_t samples);
};

}  // namespace reprise
