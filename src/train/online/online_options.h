// Values derived from the options of online training.
#pragma once

#include <reprise/train/online.h>

#include <cstdint>

namespace reprise {

/// Micro-batches of a generation batch, per process.
int64_t generation_micro_batches(const OnlineOptions& options);
/// Temperature of log-probabilities: that of the sampling, or 1 if sampling is greedy.
double logprob_temperature(const OnlineOptions& options);
/// Options of group_advantages(), for estimators that compare groups.
AdvantageOptions group_options(const OnlineOptions& options);

}  // namespace reprise
