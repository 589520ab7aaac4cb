// A part of a tensor: what one of several processes has of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// The elements [begin, begin + values.numel()) of a tensor, counted as if it were flat.
struct TensorPart {
  std::string name;
  std::vector<int64_t> shape;  ///< of the whole tensor
  int64_t begin = 0;
  at::Tensor values;  ///< flat
};

}  // namespace reprise
