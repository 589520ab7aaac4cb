// The operator reprise::dequantize_, which fills a matrix from a quantised weight.
#pragma once

#include "quant/quantized_weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace reprise::quant {

/// Overwrites `out`, a contiguous matrix (out, in) on the weight's device. Each value is computed
/// in float32 and rounded once. Allocates nothing on the CPU, nor on a GPU with our kernels.
REPRISE_API void dequantize_into(at::Tensor& out, const QuantizedWeight& weight);

namespace reference {

/// By ATen, for devices without a kernel. `format` is a QuantFormat; the other arguments are the
/// fields of a QuantizedWeight.
REPRISE_API void dequantize_(at::Tensor& out,
                             const at::Tensor& packed,
                             const at::Tensor& scales,
                             const std::optional<at::Tensor>& nested_scales,
                             const std::optional<at::Tensor>& nested_map,
                             double offset,
                             int64_t format,
                             int64_t block);

}  // namespace reference

}  // namespace reprise::quant
