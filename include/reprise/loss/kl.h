// KL divergence of a policy from its reference, estimated from sampled tokens, and an adaptive
// controller for its coefficient.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// d is the log-probability under the policy minus that under the reference.
enum class KlEstimator : uint8_t {
  K1,  ///< k1: d. Unbiased, may be negative. As a loss without a ratio its expected gradient is 0
  K2,  ///< k2: d^2 / 2. Biased, with the gradient of the reverse KL
  K3,  ///< k3: e^-d - 1 + d. Unbiased and never negative
};

/// Throws for an unknown name and lists the known ones.
REPRISE_API KlEstimator parse_kl_estimator(std::string_view name);

/// Per-token estimates with the shape of the inputs, differentiable with respect to both. `clamp`
/// clips each estimate to [-clamp, clamp], where it then has no gradient (OpenRLHF: 10; TRL: none).
REPRISE_API at::Tensor kl_estimate(const at::Tensor& logprobs,
                                   const at::Tensor& reference,
                                   KlEstimator estimator,
                                   std::optional<double> clamp = {});

/// Adaptive KL controller of Ziegler et al. 2019: the coefficient grows while the KL is above the
/// target and shrinks while it is below, by at most 20 % per `horizon` samples. Only `value`
/// changes.
struct REPRISE_API AdaptiveKl {
  double value;            ///< the coefficient
  double target;           ///< target KL in nats
  double horizon = 10000;  ///< in samples

  /// Throws unless target and horizon are positive and value is not negative.
  void validate() const;
  /// Updates the coefficient after `samples` samples with mean KL `current`. A non-finite KL is
  /// ignored, because the coefficient could never recover from it.
  void update(double current, int64_t samples);
};

}  // namespace reprise
