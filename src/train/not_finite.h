// Which row made the loss infinite or NaN?
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/train/objective.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

struct SuspectRows {
  TrainingObjective& objective;
  const Dataset& data;
  const CollateOptions& collate;
};

/// A message that names the rows of a micro-batch whose loss, each row alone, is not finite; or all
/// of its rows if none is so alone. No collective of its own: a process that has such a micro-batch
/// may search alone, if the model's parameters are held.
std::string describe_not_finite(const SuspectRows& suspects, const std::vector<int64_t>& indices);

}  // namespace reprise
