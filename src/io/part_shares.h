// Which process writes which elements, when several have parts of the same tensors.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_part.h>

#include <cstddef>
#include <vector>

namespace reprise::detail {

/// A part that this process writes.
struct PartShare {
  size_t tensor = 0;  ///< its number
  const TensorPart* part = nullptr;
};

/// All processes call it, with the same tensors. Throws in all of them unless their parts together
/// are every element of every tensor once; where several have the same part, the first of them
/// writes it.
std::vector<PartShare> shares_of(const World& world,
                                 const std::vector<TensorInfo>& tensors,
                                 const std::vector<TensorPart>& parts);

}  // namespace reprise::detail
