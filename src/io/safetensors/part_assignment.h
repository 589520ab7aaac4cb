// Decides which process writes which elements when several have parts of the same tensors.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/tensor_file.h>
#include <reprise/io/tensor_part.h>

#include <cstddef>
#include <vector>

namespace reprise::io {

/// A part that this process writes.
struct AssignedPart {
  size_t tensor = 0;  ///< index of the tensor
  const TensorPart* part = nullptr;
};

/// The parts that this process writes. A collective; all processes pass the same tensors. Throws in
/// all of them unless their parts cover every element of every tensor without overlap. A part that
/// several processes have is written by the first of them.
std::vector<AssignedPart> assign_parts(const World& world,
                                       const std::vector<TensorInfo>& tensors,
                                       const std::vector<TensorPart>& parts);

}  // namespace reprise::io
