// By how much each pair of dimensions turns from one position to the next, by the rules of
// transformers (modeling_rope_utils).
#pragma once

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// float32, (dims / 2), on the device of `positions`. Dynamic and LongRope depend on the largest
/// position; nothing waits for the device.
at::Tensor rope_frequencies(const RopeConfig& config, const at::Tensor& positions);

}  // namespace reprise
