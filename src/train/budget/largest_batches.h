// Which micro-batches of a run may take the most memory. All lengths are known before the first
// step, so a budget that a late one would break is refused at the start.
#pragma once

#include "train/loop/batch_plan.h"

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// The micro-batches of the steps from `first` to before `last` whose shapes no other one covers,
/// the largest first; at most four. Several, because rows and their lengths both count.
REPRISE_API std::vector<MicroBatchRows> largest_micro_batches(BatchPlan plan,
                                                              int64_t first,
                                                              int64_t last,
                                                              const Dataset& data,
                                                              const CollateOptions& options);

}  // namespace reprise
