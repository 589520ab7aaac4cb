// The loss of a value model (critic) on the tokens of completions.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/metric.h>

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace reprise {

struct ValueOptions {
  /// Values are clipped to this distance from the old ones. OpenRLHF uses 0.5, TRL 0.2. Empty: no
  /// clipping.
  std::optional<double> clip = 0.5;
  double coefficient = 1.0;  ///< TRL's vf_coef, for a loss that is added to the policy loss
};

/// Throws if an option is out of range.
REPRISE_API void validate(const ValueOptions& options);

/// All (B, T). Values outside the mask may be anything, even NaN.
struct ValueBatch {
  at::Tensor values;      ///< with gradients
  at::Tensor old_values;  ///< at the time of sampling; may be undefined without clip
  at::Tensor returns;
  at::Tensor mask;  ///< nonzero for tokens of the completion
};

struct ValueResult {
  at::Tensor part;  ///< scalar: contribution to the loss of the step; call backward on it
  /// val/clipfrac: share of tokens whose clipped error is the larger one; val/error: mean squared
  /// error.
  std::vector<Metric> metrics;
};

/// coefficient * max((V - R)^2, (V_clipped - R)^2) / 2, divided by step_tokens: the number of
/// tokens inside the masks of all micro-batches of the optimizer step.
REPRISE_API ValueResult value_loss(const ValueBatch& batch,
                                   double step_tokens,
                                   const ValueOptions& options);

/// Scalar: 1 - variance(returns - values) / variance(returns) inside the mask. 1 is perfect, 0 is
/// no better than the mean. Also 0 if all returns are equal.
REPRISE_API at::Tensor explained_variance(const at::Tensor& values,
                                          const at::Tensor& returns,
                                          const at::Tensor& mask);

}  // namespace reprise
