// Smaller forms of kept tensors: masks bit by bit, which is exact, and floating numbers as int8
// with a scale per block, which is not.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::detail {

/// How many values share a scale.
inline constexpr int64_t kQuantizedBlock = 256;

/// The content of one tensor. Everything is computed on the tensor's device, in the same way each
/// time, without waiting for it.
class REPRISE_API Compressed {
 public:
  enum class Form : uint8_t {
    None,  ///< cannot be compressed: neither bool nor floating, or not dense
    Bits,  ///< bool: one bit for a value; comes back exactly
    Int8,  ///< floating: an int8 for a value, a float32 scale for a block; within half a step
  };
  static Form form_of(const at::Tensor& tensor);

  /// Bytes that compressing takes, known before it is done.
  struct Footprint {
    std::array<size_t, 2> parts{};  ///< of the smaller form: values and scales
    size_t making = 0;              ///< work memory while it is made, beyond these
    size_t restoring = 0;           ///< and while the tensor is made from it, beyond the tensor
  };
  /// form_of(tensor) is not None.
  static Footprint footprint_of(const at::Tensor& tensor);

  /// form_of(tensor) is not None.
  explicit Compressed(const at::Tensor& tensor);

  /// `hollow` (checkpoint/hollow_tensor.h) of that tensor with its content again.
  at::Tensor restore(const at::Tensor& hollow) const;
  size_t bytes() const;

 private:
  Form form_;
  at::Tensor values_;  // bytes of bits and the last few masks; or int8
  at::Tensor scales_;  // float32, one for a block
};

}  // namespace reprise::detail
