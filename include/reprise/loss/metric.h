// A value to log beside a loss. It stays on the device until somebody reads it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace reprise {

/// A weighted sum, so that the mean over micro-batches and processes is sum of sums / sum of
/// weights. Both are detached scalars on the device of the loss.
struct Metric {
  std::string name;
  at::Tensor sum, weight;
};

}  // namespace reprise
