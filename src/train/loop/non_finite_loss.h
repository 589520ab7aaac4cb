// Finds the rows that gave a loss of NaN or infinity.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/train/objective.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

struct NonFiniteSearch {
  TrainingObjective& objective;
  const Dataset& data;
  const CollateOptions& collate;
};

/// A message that names the rows of a micro-batch whose loss is not finite when computed alone, or
/// all rows if there is no such row. Makes no collective calls, so one process may search alone;
/// the model's parameters must be unsharded then.
std::string describe_non_finite_loss(const NonFiniteSearch& search,
                                     const std::vector<int64_t>& indices);

}  // namespace reprise
