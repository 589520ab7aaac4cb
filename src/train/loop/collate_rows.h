// Rows of a data set as a batch.
#pragma once

#include "train/loop/batch_plan.h"

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// The examples at these indices as a batch.
REPRISE_API Batch collate_examples(const Dataset& data,
                                   const std::vector<int64_t>& indices,
                                   const CollateOptions& options);

/// The same for a micro-batch of the plan, whose mismatched rows may come from examples of other
/// processes.
Batch collate_rows(const Dataset& data, const MicroBatchRows& rows, const CollateOptions& options);

/// Tokens per row: the padded length, or the mean if the rows are joined (padding_free).
int64_t tokens_of_row(const Batch& batch);

}  // namespace reprise
