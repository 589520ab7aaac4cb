// Terms that the policy losses share: a prepared micro-batch, and weights of its tokens without
// gradients. Tensors are (B, T) unless noted.
#pragma once

#include <reprise/loss/policy_gradient.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace reprise {

/// In at least float32, and 0 outside the mask.
struct PolicyTerms {
  at::Tensor mask;        ///< bool
  at::Tensor counts;      ///< the mask in floating point
  at::Tensor logprobs;    ///< with gradients
  at::Tensor old;         ///< detached
  at::Tensor log_ratios;  ///< logprobs - old
  at::Tensor ratios;      ///< (B, T), or (B, 1) for sequence ratios
  at::Tensor advantages;  ///< (B, T) or (B, 1)
};

/// Throws if shapes are wrong or an input that the options need is missing.
PolicyTerms make_terms(const PolicyBatch& batch, const PolicyOptions& options);

/// The mean of (B, T) values over tokens, or of (B, 1) values over sequences.
Metric mean_of(std::string name,
               const at::Tensor& values,
               const PolicyTerms& terms,
               MetricMean mean = MetricMean::OfMicroBatches);
/// The least or greatest of `values` where `counts` is set and which are no NaN, as `mean` says.
Metric extreme_of(std::string name,
                  const at::Tensor& values,
                  const at::Tensor& counts,
                  MetricMean mean);

/// Importance weights for the mismatch between sampler and trained model, (B, T) or (B, 1).
at::Tensor mismatch_weights(const PolicyTerms& terms,
                            const at::Tensor& sampling,
                            const PolicyOptions& options);

/// Metrics of the mismatch between sampler and trained model, whether it is corrected or not.
void add_mismatch_metrics(const PolicyTerms& terms,
                          const at::Tensor& sampling,
                          std::vector<Metric>& metrics);

/// 1 for sequences to keep, 0 for those too far off-policy; (B, 1), or (B, T) if advantages are. If
/// sampling is undefined, the old log-probabilities are used.
at::Tensor off_policy_mask(const PolicyTerms& terms, const at::Tensor& sampling, double threshold);

/// 1 for the `share` of tokens with the highest entropy, 0 for the others.
at::Tensor top_entropy_mask(const PolicyTerms& terms, const at::Tensor& entropy, double share);

/// VESPO's phi, (B, 1), or (B, T) if advantages are. `weights`: mismatch_weights(), or undefined.
at::Tensor vespo_weights(const PolicyTerms& terms,
                         const at::Tensor& weights,
                         const PolicyOptions& options);

}  // namespace reprise
