// Tensors cut into flat slices, one for each process of a world.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_part.h>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace reprise::testing {

/// What this process has of a contiguous tensor, as a view of it. The last may have less or
/// nothing.
inline TensorPart part_here(const std::string& name, const at::Tensor& tensor, const World& world) {
  const int64_t each = (tensor.numel() + world.size() - 1) / world.size();
  const int64_t begin = std::min(world.rank() * each, tensor.numel());
  const int64_t count = std::min(each, tensor.numel() - begin);
  return {name, tensor.sizes().vec(), begin, tensor.detach().view({-1}).narrow(0, begin, count)};
}

inline std::vector<TensorPart> parts_here(const NamedTensors& tensors, const World& world) {
  std::vector<TensorPart> parts;
  for (const auto& [name, tensor] : tensors) {
    parts.push_back(part_here(name, tensor, world));
  }
  return parts;
}

}  // namespace reprise::testing
