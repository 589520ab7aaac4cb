// RMSNorm, computed in float32 (float64 for float64) and rounded once.
//
// Forward and backward are one operator each (reprise::rms_norm, reprise::rms_norm_backward), which
// is what memory policies see. Saved for backward: the input and one number a row, never the
// normalised rows.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <utility>

namespace reprise::ops {

/// What the normalised rows are multiplied by: weight + offset, never rounded. Gemma's offset is 1.
struct NormWeight {
  // Implicit: a plain weight is the usual case.
  NormWeight(at::Tensor of_rows, double added = 0)  // NOLINT(google-explicit-constructor)
      : weight(std::move(of_rows)), offset(added) {}

  at::Tensor weight;
  double offset;
};

struct Fork {
  at::Tensor residual;  ///< x, with a gradient that passes through the norm's backward
  at::Tensor normed;
};

/// x (..., width) and its norm, for a residual connection: code that uses `residual` instead of x
/// gets the sum of both gradients from the backward of the norm, without an extra pass over memory.
REPRISE_API Fork fork_rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon);

/// The norm alone.
REPRISE_API at::Tensor rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon);

}  // namespace reprise::ops
