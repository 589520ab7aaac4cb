// Compressed forms of kept tensors: bool masks as bits, which is exact, and floating-point tensors
// as int8 with a scale per block, which is lossy.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::detail {

/// Number of values that share a scale.
inline constexpr int64_t kQuantizedBlock = 256;

/// The compressed content of one tensor. Everything is computed on the tensor's device,
/// deterministically and without synchronizing.
class REPRISE_API Compressed {
 public:
  enum class Form : uint8_t {
    None,  ///< cannot be compressed: neither bool nor floating-point, or not dense
    Bits,  ///< bool: one bit per value; restored exactly
    Int8,  ///< floating-point: int8 values and a float32 scale per block; within half a step
  };
  static Form form_of(const at::Tensor& tensor);

  /// The memory that compressing a tensor takes, known in advance.
  struct Footprint {
    std::array<size_t, 2> parts{};  ///< bytes of the compressed form: values and scales
    size_t making = 0;              ///< temporary bytes of compressing, on top of `parts`
    size_t restoring = 0;           ///< temporary bytes of restoring, on top of the tensor
  };
  /// Requires form_of(tensor) != None.
  static Footprint footprint_of(const at::Tensor& tensor);

  /// Requires form_of(tensor) != None.
  explicit Compressed(const at::Tensor& tensor);

  /// The tensor again, given its placeholder (checkpoint/offload/placeholder.h).
  at::Tensor restore(const at::Tensor& placeholder) const;
  size_t bytes() const;

 private:
  Form form_;
  at::Tensor values_;  // packed bits, then the last few bools as bytes; or int8
  at::Tensor scales_;  // float32, one per block
};

}  // namespace reprise::detail
