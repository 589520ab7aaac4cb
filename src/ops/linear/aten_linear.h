// x weight^T + bias outside of our own operators: at::linear, or the CPU kernel for small batches.
//
// The model layer calls neither by itself: model/layers/linear.h chooses.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// at::linear. On meta tensors, which LibTorch's autocast ignores, it converts its arguments as
/// autocast would on the device that is planned for.
at::Tensor aten_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

/// small_batch_linear() where it serves, otherwise aten_linear(): x (..., in), weight (out, in),
/// bias (out) or undefined.
REPRISE_API at::Tensor plain_linear(const at::Tensor& x,
                                    const at::Tensor& weight,
                                    const at::Tensor& bias = {});

}  // namespace reprise::ops
