// OpenRLHF's stop_properly_penalty_coef, which training does not offer, as a peer for the penalties
// that it does.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace reprise::testing {

/// (B): scores (B) of unfinished completions are multiplied by a coefficient in [0, 1], or replaced
/// by a negative one.
inline at::Tensor with_stop_penalty(const at::Tensor& scores,
                                    const at::Tensor& is_finished,
                                    double coefficient) {
  TORCH_CHECK(coefficient <= 1 && std::isfinite(coefficient),
              "[reward] stop_properly_penalty_coef is a factor in [0, 1], or a negative score; "
              "found ",
              coefficient);
  TORCH_CHECK(scores.dim() == 1 && is_finished.sizes() == scores.sizes(),
              "[reward] expected scores (B) and whether each completion is finished");
  const auto values = scores.detach().to(at::kFloat);
  const auto unfinished =
      coefficient < 0 ? at::full_like(values, coefficient) : values * coefficient;
  return at::where(is_finished.to(at::kBool), values, unfinished);
}

}  // namespace reprise::testing
