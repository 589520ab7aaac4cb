// Losses on single responses that are each marked desirable or not: KTO and APO-zero.
//
// KTO compares a response's log-ratio with z, an estimate of the divergence of policy from
// reference that is made on responses to other prompts. Which responses those are is a matter of
// the batch (CollateOptions::mismatch: completions of the row before, or after); the loss is the
// same.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace reprise {

enum class UnpairedLoss : uint8_t {
  Kto,      ///< kto
  ApoZero,  ///< apo_zero_unpaired: z is 0
  KtoEven,  ///< kto_even: OpenRLHF's VanillaKTOLoss, see unpaired_loss
};

/// Throws listing the names there are.
REPRISE_API UnpairedLoss parse_unpaired_loss(std::string_view name);

struct UnpairedOptions {
  UnpairedLoss loss = UnpairedLoss::Kto;
  double beta = 0.1;
  double desirable_weight = 1.0;
  double undesirable_weight = 1.0;
};

/// Throws if an option is out of range, and says why.
REPRISE_API void validate(const UnpairedOptions& options);

/// Whether unpaired_loss takes a divergence, so that a pass over mismatched responses is needed.
REPRISE_API bool needs_kl(const UnpairedOptions& options);

/// Mean log-ratio over mismatched responses: sums of log-probabilities (N) under policy and
/// reference. A detached scalar that may be negative: ranks are to be averaged before it is cut at
/// 0, which unpaired_loss does.
REPRISE_API at::Tensor mismatched_kl(const at::Tensor& policy, const at::Tensor& reference);

struct UnpairedResult {
  at::Tensor loss;  ///< scalar: mean over responses
  /// Detached: beta times the log-ratio. Of lengths that add up to B; either may be empty.
  at::Tensor desirable_rewards, undesirable_rewards;
  at::Tensor kl;  ///< scalar, detached: the z that was used; for KtoEven the mean of its two
};

/// policy and reference (B): sums of log-probabilities; desirable (B) bool; kl a scalar, undefined
/// unless needs_kl.
///
/// KtoEven needs no mismatched responses: z of the desirable is the mean log-ratio of the
/// undesirable, and the other way round. As in OpenRLHF gradients pass through it, and a batch must
/// have responses of both kinds.
REPRISE_API UnpairedResult unpaired_loss(const at::Tensor& policy,
                                         const at::Tensor& reference,
                                         const at::Tensor& desirable,
                                         const at::Tensor& kl,
                                         const UnpairedOptions& options);

}  // namespace reprise
