// Linear layers of one input computed as one: their weights are adjacent in memory, and their
// outputs are side by side in one tensor. Each stays a module with its own parameters and adapter.
#pragma once

#include "model/layers/linear.h"
#include "ops/linear/adapters.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace reprise {

using Linears = std::vector<const Linear*>;

/// Linear layers of this shape with these output widths. Their weights are adjacent if they are
/// stored (out, in).
std::vector<std::shared_ptr<Linear>> adjacent_linears(const std::vector<int64_t>& outs,
                                                      const Linear::Shape& shape,
                                                      const at::TensorOptions& options);

/// The fused_values() of all layers as one weight and bias. None if a layer has none, or if some
/// weights are quantised and others not.
std::optional<FusedValues> joined_values(const Linears& linears,
                                         const at::Tensor& x,
                                         const Pass& pass);
/// The LoRA branches of all layers for our fused operators, perhaps none. Where they have dropout,
/// all layers read one dropped x.
ops::Adapters joined_branches(const Linears& linears, const at::Tensor& x, const Pass& pass);
/// The outputs of all layers, with their branches, side by side, plus the residual if it is
/// defined, which has the type of autocast_input(x). Undefined if joined_values() has none.
at::Tensor joined_forward(const Linears& linears,
                          const at::Tensor& x,
                          const Pass& pass,
                          const at::Tensor& residual = {});

/// Converts a tensor to another device or type.
using Move = std::function<at::Tensor(const at::Tensor&)>;
/// Moves the parameters of all layers as one tensor, so that they stay adjacent. The parameters
/// stay the same tensor objects.
void move_together(const Linears& linears, const Move& move);

}  // namespace reprise
