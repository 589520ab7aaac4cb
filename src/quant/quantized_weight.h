// A weight matrix in a quantised format, as bitsandbytes stores it.
//
// 4-bit codes lie two in a byte, the first in its upper half, over the whole matrix in row-major
// order; blocks are counted in the same order, so that they may span rows. The value of a code is
// its number times the scale of its block. Scales are float32, or with double quantisation 8-bit
// codes again: number * nested_scale + offset.
#pragma once

#include <reprise/export.h>
#include <reprise/quant/format.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace reprise::quant {

struct QuantizedWeight {
  QuantScheme scheme;
  int64_t out = 0, in = 0;
  at::Tensor packed;         ///< uint8 (bytes, 1); Int8: int8 (out, in)
  at::Tensor scales;         ///< float32 (blocks) or codes, uint8 (blocks); Int8: (out)
  at::Tensor nested_scales;  ///< float32 (blocks of scales); undefined: not nested
  at::Tensor nested_map;     ///< float32 (256); undefined: not nested
  double offset = 0;         ///< added to nested scales; float32
  at::ScalarType source_type = at::kFloat;  ///< of the weight that was quantised

  bool is_nested() const { return nested_scales.defined(); }
  int64_t blocks() const { return (out * in + scheme.block - 1) / scheme.block; }
  at::Device device() const { return packed.device(); }
  /// Bytes of all tensors.
  REPRISE_API int64_t bytes() const;
  /// The same weight on another device.
  REPRISE_API QuantizedWeight to(at::Device device, bool non_blocking = false) const;
};

/// Checks types, shapes and devices of the tensors against the scheme and the sizes. `name` is that
/// of the weight, for messages.
REPRISE_API void check(const QuantizedWeight& weight, const std::string& name);

/// Quantises a matrix (out, in) of float32, bfloat16 or float16 on the CPU, to the bits that
/// bitsandbytes computes there. Throws if a value is not finite, or for Int8 if it is not in
/// float16. A meta tensor gives meta tensors.
REPRISE_API QuantizedWeight quantize(const at::Tensor& matrix, const QuantScheme& scheme);

/// The matrix (out, in) in this type: computed in float32 and rounded once.
REPRISE_API at::Tensor dequantize(const QuantizedWeight& weight, at::ScalarType type);

}  // namespace reprise::quant
