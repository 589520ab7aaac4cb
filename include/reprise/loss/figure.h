// A number to log that a loss gives on the side, left on its device until somebody reads it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace reprise {

/// A weighted sum, so that micro-batches and processes can be put together to one mean. Both are
/// detached scalars on the device of the loss.
struct Figure {
  std::string name;
  at::Tensor sum, weight;
};

}  // namespace reprise
