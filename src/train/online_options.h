// What follows from the options of online training.
#pragma once

#include <reprise/train/online.h>

#include <cstdint>

namespace reprise {

/// Micro-batches of a generation batch.
int64_t generation_micro_batches(const OnlineOptions& options);
/// What log-probabilities are taken at: the sampling's temperature, or 1 where that is greedy.
double logprob_temperature(const OnlineOptions& options);
/// Options of the group's estimator. For estimators that compare groups.
AdvantageOptions group_options(const OnlineOptions& options);

}  // namespace reprise
