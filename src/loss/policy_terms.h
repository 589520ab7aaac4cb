// What the parts of a policy loss have in common: a micro-batch made ready, and factors of its
// tokens that have no gradient. (B, T) unless said.
#pragma once

#include <reprise/loss/policy.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace reprise {

/// In float32 at least, and 0 outside the mask.
struct PolicyTerms {
  at::Tensor mask;        ///< bool
  at::Tensor counts;      ///< the mask as floating point
  at::Tensor logprobs;    ///< with gradient
  at::Tensor old;         ///< without
  at::Tensor log_ratios;  ///< logprobs - old
  at::Tensor ratios;      ///< (B, T), or (B, 1) if they are of sequences
  at::Tensor advantages;  ///< (B, T) or (B, 1)
};

/// Checks the shapes, and that what the options need was given.
PolicyTerms terms_of(const PolicyBatch& batch, const PolicyOptions& options);

/// Mean of (B, T) values over tokens, or of (B, 1) over sequences, as a figure.
Figure mean_of(std::string name, const at::Tensor& values, const PolicyTerms& terms);

/// Weights of the mismatch between sampler and trained model, (B, T) or (B, 1).
at::Tensor mismatch_weights(const PolicyTerms& terms,
                            const at::Tensor& sampling,
                            const PolicyOptions& options);

/// What the sampler's log-probabilities have to say, corrected or not.
void add_mismatch_figures(const PolicyTerms& terms,
                          const at::Tensor& sampling,
                          std::vector<Figure>& figures);

/// 1 for sequences that are kept, 0 for those too far from the policy that sampled them; (B, 1), or
/// (B, T) if advantages are. sampling may be undefined: old then.
at::Tensor off_policy_kept(const PolicyTerms& terms, const at::Tensor& sampling, double threshold);

/// 1 for the `share` of the tokens with the most entropy, 0 for others.
at::Tensor most_uncertain(const PolicyTerms& terms, const at::Tensor& entropy, double share);

/// VESPO's phi, (B, 1), or (B, T) if advantages are. `weights` of the mismatch, or undefined.
at::Tensor vespo_weights(const PolicyTerms& terms,
                         const at::Tensor& weights,
                         const PolicyOptions& options);

}  // namespace reprise
