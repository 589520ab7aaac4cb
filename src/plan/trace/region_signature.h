// Shapes of tensors as a RegionSignature has them.
#pragma once

#include <reprise/region_decision.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace reprise::planning {

TensorShape shape_of(const at::Tensor& tensor);
/// Without making a TensorShape.
bool has_shape(const at::Tensor& tensor, const TensorShape& shape);

/// "Float [8, 16]".
std::string describe(const TensorShape& shape);
std::string describe(const std::vector<TensorShape>& shapes);

}  // namespace reprise::planning
