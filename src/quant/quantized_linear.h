// A linear layer over a quantised weight as one operator (reprise::quantized_linear).
//
// Note [One matrix of scratch]
// Forward dequantises the weight into a scratch matrix, multiplies, and frees it; backward does so
// again for the gradient of the input. So at any time one layer's matrix is there, in the type of
// the input, whose block of memory the allocators give to the next layer. Neither the matrix nor
// the input is kept from forward to backward: a frozen layer needs them for nothing. The graph only
// refers to the quantised weight.
#pragma once

#include "quant/quantized_weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <memory>

namespace reprise::quant {

/// x weight^T + bias in the type of x: x (..., in), bias (out) of the type of x, or undefined.
/// Autocast does not act on it: convert x before. The weight gets no gradient.
REPRISE_API at::Tensor quantized_linear(const at::Tensor& x,
                                        const std::shared_ptr<const QuantizedWeight>& weight,
                                        const at::Tensor& bias);

}  // namespace reprise::quant
