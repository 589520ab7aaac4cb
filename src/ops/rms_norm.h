// Root-mean-square norm, computed in float32 (float64 for float64) and rounded once.
//
// reprise::rms_norm and reprise::rms_norm_backward are operators of the dispatcher, so policies see
// one operator each. Kept for backward: the input and one number a row, never the normalised rows.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

struct Fork {
  at::Tensor stream;  ///< x itself, whose gradient passes through the norm's backward
  at::Tensor normed;
};

/// The norm of x (..., width) beside x. Who goes on with `stream` instead of x (a residual
/// connection) gets the sum of both gradients from the norm's own pass over memory.
REPRISE_API Fork fork_rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// The norm alone.
REPRISE_API at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace reprise::ops
