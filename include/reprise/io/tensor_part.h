// The part of a tensor that one of several processes has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// The elements [begin, begin + values.numel()) of a flattened tensor.
struct TensorPart {
  std::string name;
  std::vector<int64_t> shape;  ///< shape of the whole tensor
  int64_t begin = 0;
  at::Tensor values;  ///< flat
};

}  // namespace reprise
