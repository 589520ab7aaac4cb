// Losses on single responses labelled desirable or undesirable: KTO and APO-zero.
//
// KTO compares the log-ratio of a response with z, an estimate of the KL between policy and
// reference from responses to other prompts. The batch determines which responses those are (see
// CollateOptions::mismatch).
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

/// Throws for an unknown name and lists the known ones.
REPRISE_API UnpairedLoss parse_unpaired_loss(std::string_view name);

struct UnpairedOptions {
  UnpairedLoss loss = UnpairedLoss::Kto;
  double beta = 0.1;
  double desirable_weight = 1.0;
  double undesirable_weight = 1.0;
};

/// Throws if an option is out of range.
REPRISE_API void validate(const UnpairedOptions& options);

/// Whether unpaired_loss() needs a KL, which takes a pass over mismatched responses.
REPRISE_API bool needs_kl(const UnpairedOptions& options);

/// Mean log-ratio over mismatched responses, a detached scalar. policy and reference (N): sums of
/// log-probabilities. It may be negative: average it over ranks first; unpaired_loss() then clamps
/// it at 0.
REPRISE_API at::Tensor mismatched_kl(const at::Tensor& policy, const at::Tensor& reference);

struct UnpairedResult {
  at::Tensor loss;  ///< scalar: mean over responses
  /// Detached: beta times the log-ratio. Their lengths add up to B; either may be empty.
  at::Tensor desirable_rewards, undesirable_rewards;
  at::Tensor kl;  ///< scalar, detached: the z that was used; for KtoEven the mean of its two
};

/// policy and reference (B): sums of log-probabilities; desirable (B) bool; kl a scalar, undefined
/// unless needs_kl(options).
///
/// KtoEven needs no mismatched responses: z of the desirable responses is the mean log-ratio of the
/// undesirable ones, and vice versa. As in OpenRLHF, gradients flow through z, and a batch must
/// have responses of both kinds.
REPRISE_API UnpairedResult unpaired_loss(const at::Tensor& policy,
                                         const at::Tensor& reference,
                                         const at::Tensor& desirable,
                                         const at::Tensor& kl,
                                         const UnpairedOptions& options);

}  // namespace reprise
