// RMSNorm, computed in float32 (float64 for float64) and rounded once.
//
// Forward and backward are one operator each (reprise::rms_norm, reprise::rms_norm_backward), which
// is what memory policies see. Saved for backward: the input and one number a row, never the
// normalised rows.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

struct Fork {
  at::Tensor residual;  ///< x, with a gradient that passes through the norm's backward
  at::Tensor normed;
};

/// x (..., width) and its norm, for a residual connection: code that uses `residual` instead of x
/// gets the sum of both gradients from the backward of the norm, without an extra pass over memory.
REPRISE_API Fork fork_rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// The norm alone.
REPRISE_API at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace reprise::ops
