// The valid tokens of a batch, whose target is not kIgnoredLabel: selected before logits are
// computed, and their results scattered back afterwards.
#pragma once

#include <reprise/loss/targets.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

class ValidTokens {
 public:
  /// targets (...) int64, each kIgnoredLabel or in [0, vocabulary). Waits for their device unless
  /// Targets::known is set.
  ValidTokens(const Targets& targets, int64_t vocabulary);

  int64_t count() const { return targets_.size(0); }
  /// (count), int64.
  const at::Tensor& targets() const { return targets_; }
  /// Selects (count, H) from hidden (..., H). Differentiable; saves only the indices for backward.
  at::Tensor rows_of(const at::Tensor& hidden) const;
  /// Scatters values (count) to the shape of the targets, 0 elsewhere. Differentiable.
  at::Tensor scatter(const at::Tensor& values) const;

 private:
  c10::DimVector shape_;
  at::Tensor indices_;  // undefined if all tokens are valid
  at::Tensor targets_;
};

/// Throws unless the head fits hidden (..., H) and there is one target per row.
void check_head(const at::Tensor& hidden, const LinearHead& head, const at::Tensor& targets);

}  // namespace reprise
