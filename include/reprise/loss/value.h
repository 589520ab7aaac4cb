// The loss of a value model (critic) on the tokens of completions.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/figure.h>

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace reprise {

struct ValueOptions {
  /// How far a value may move from the old one before the loss stops rewarding it. OpenRLHF's is
  /// 0.5, TRL's 0.2.
  std::optional<double> clip = 0.5;
  double coefficient = 1.0;  ///< TRL's vf_coef, for a loss that is added to the policy's
};

/// Throws if an option is out of range, and says why.
REPRISE_API void validate(const ValueOptions& options);

/// All (B, T). What the mask leaves out may hold anything, even NaN.
struct ValueBatch {
  at::Tensor values;      ///< with gradient
  at::Tensor old_values;  ///< those that the returns were made with; undefined unless clip is set
  at::Tensor returns;
  at::Tensor mask;  ///< nonzero: a token of the completion
};

struct ValueResult {
  at::Tensor part;  ///< scalar: the batch's part of the step's loss, to call backward on
  /// val/clipfrac: tokens whose clipped error was the larger one; val/error: mean square.
  std::vector<Figure> figures;
};

/// coefficient * max((V - R)^2, (V_clipped - R)^2) / 2, mean over step_tokens: the tokens under the
/// masks of all micro-batches of the optimizer step.
REPRISE_API ValueResult value_loss(const ValueBatch& batch,
                                   double step_tokens,
                                   const ValueOptions& options);

/// Scalar: 1 - variance(returns - values) / variance(returns) under the mask. 1 is perfect, 0 as
/// good as the mean; 0 too if all returns are equal.
REPRISE_API at::Tensor explained_variance(const at::Tensor& values,
                                          const at::Tensor& returns,
                                          const at::Tensor& mask);

}  // namespace reprise
