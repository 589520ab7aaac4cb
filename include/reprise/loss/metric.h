// A value to log beside a loss. It stays on the device until somebody reads it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace reprise {

/// How the values of micro-batches and processes become that of a step. An evaluation pools means
/// and takes the least and the greatest of all, so it does not depend on the batch size.
enum class MetricMean : uint8_t {
  Pooled,          ///< sum of all sums / sum of all weights
  OfMicroBatches,  ///< TRL's: pooled over the processes, then a mean in which micro-batches are
                   ///< equal
  OfMinima,        ///< the least of the processes, then such a mean
  OfMaxima,        ///< the greatest of the processes, then such a mean
  Least,           ///< of all
  Greatest,        ///< of all
};

/// A weighted sum, or a least or greatest value with weight 1; weight 0: there is none. Both are
/// detached scalars on the device of the loss.
struct Metric {
  std::string name;
  at::Tensor sum, weight;
  MetricMean mean = MetricMean::Pooled;
};

}  // namespace reprise
