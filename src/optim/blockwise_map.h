// 8-bit numbers in blocks: a code of each element, and the largest magnitude of each block.
//
// Codes stand for the values of bitsandbytes' dynamic maps, which are denser around zero: 3 bits of
// exponent in decimal, the rest linear. A value is divided by its block's maximum and takes the
// code that is nearest to a grid of 65,536 points between -1 and 1, bit for bit as bitsandbytes
// does it on a CPU; here it is so on every device.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

class REPRISE_API BlockwiseMap {
 public:
  static constexpr int64_t kBlock = 256;
  static int64_t blocks_of(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

  /// Of values between -1 and 1, or between 0 and 1, on a device. 65 KiB.
  BlockwiseMap(bool is_signed, const at::Device& device);

  /// The float32 values of flat codes. A block begins at the first; the last may be shorter.
  at::Tensor decode(const at::Tensor& codes, const at::Tensor& maxima) const;
  /// Sets codes and maxima to those of float32 values, which are overwritten.
  void encode(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& maxima) const;

 private:
  at::Tensor values_;   // of each code, ascending
  at::Tensor nearest_;  // the code of each point of the grid
};

}  // namespace reprise
