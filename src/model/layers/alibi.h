// ALiBi: position as a bias of the scores, with a slope for each head.
#pragma once

#include <reprise/export.h>
#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// What is added to the scores of each key, (B or 1, heads, S), for keys at these positions (B or
/// 1, S). It grows with the key's position instead of falling with its distance: a softmax does not
/// see what all keys of a query have in common. Slopes and rounding are transformers', of a model
/// with this type.
REPRISE_API at::Tensor alibi_bias(const ModelConfig& config,
                                  const at::Tensor& positions,
                                  at::ScalarType type);

}  // namespace reprise
