// Rounding to bfloat16, up or down at random so that the result is right on average.
//
// Note [Weights without a float32 copy]
// Rounded to nearest, a bfloat16 weight stays as it is when an update is smaller than a 256th of
// it, in every step. Rounded up with the probability of what is cut off, it moves by the update on
// average. The random bits are a hash of the seed, the count of updates, the parameter's name and
// the element's position in the whole parameter. So the result does not depend on how parameters
// are cut, in which order they are updated, on which process or device, or whether the run was
// resumed; and no generator advances.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace reprise {

/// What distinguishes the random bits of one tensor in one step from all others.
class REPRISE_API RoundingKey {
 public:
  /// `purpose` distinguishes the tensors of a parameter.
  RoundingKey(uint64_t seed, std::string_view parameter, int64_t updates, uint64_t purpose);

  /// 32 random bits for each of the elements [begin, begin + count), as int32.
  at::Tensor bits(int64_t begin, int64_t count, const at::Device& device) const;

 private:
  uint32_t key_;
};

/// target = values, rounded. `values` is float32 and is overwritten. Both are flat; target's first
/// element is number `begin` of the whole parameter. Values that bfloat16 can represent are not
/// changed.
REPRISE_API void round_into(const at::Tensor& target,
                            const at::Tensor& values,
                            const RoundingKey& key,
                            int64_t begin);

}  // namespace reprise
