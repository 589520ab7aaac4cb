// Projections of one input as one product: their weights lie one after the other in memory, their
// outputs side by side. Each remains a module with parameters and an adapter of its own.
#pragma once

#include "model/linear.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace reprise {

using Linears = std::vector<const Linear*>;

/// Of this shape, but with these widths, and adjacent if they are stored (out, in).
std::vector<std::shared_ptr<Linear>> adjacent_linears(const std::vector<int64_t>& outs,
                                                      const Linear::Shape& shape,
                                                      const at::TensorOptions& options);

/// All of them as one product. None if one has none.
std::optional<Linear::Product> joined_product(const Linears& linears, const Pass& pass);
/// What their adapters add to it. Undefined if none has one.
at::Tensor joined_branches(const Linears& linears, const at::Tensor& x, const Pass& pass);
/// Both. Undefined if one has no product.
at::Tensor joined_forward(const Linears& linears, const at::Tensor& x, const Pass& pass);

/// To another device or type.
using Move = std::function<at::Tensor(const at::Tensor&)>;
/// Moves their parameters as one, so that they lie one after the other there too. They stay the
/// same tensors to whoever holds them.
void move_together(const Linears& linears, const Move& move);

}  // namespace reprise
