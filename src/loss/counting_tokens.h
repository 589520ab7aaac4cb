// The tokens of a batch that count, taken out before any logits are made and put back afterwards.
#pragma once

#include <reprise/loss/targets.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

class CountingTokens {
 public:
  /// targets (...) int64; those that are not kIgnoredLabel must be rows of the head. Waits for
  /// their device if the host does not know them.
  CountingTokens(const Targets& targets, int64_t vocabulary);

  int64_t count() const { return targets_.size(0); }
  /// (count), int64.
  const at::Tensor& targets() const { return targets_; }
  /// (count, H) of hidden (..., H); differentiable. What backward keeps of it is this selection.
  at::Tensor rows_of(const at::Tensor& hidden) const;
  /// values (count) at their places among the targets, 0 elsewhere; differentiable.
  at::Tensor spread(const at::Tensor& values) const;

 private:
  c10::DimVector shape_;
  at::Tensor places_;  // undefined: all tokens count
  at::Tensor targets_;
};

/// That the head can be applied to hidden (..., H), with one target for each row.
void check_head(const at::Tensor& hidden, const LinearHead& head, const at::Tensor& targets);

}  // namespace reprise
