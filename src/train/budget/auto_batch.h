// Finds the fastest micro-batch size within a budget by trying.
//
// A larger micro-batch that recomputes more may or may not be faster than a small one that keeps
// everything. So every size that divides the rows of an optimizer step is planned and run once on
// the longest rows, until one does not fit.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/train/trainer.h>

namespace reprise {

/// The same options with the fastest batch_size, and the accumulation that keeps the rows of a
/// step. A resumed run keeps the size that it began with. Throws if not even the smallest fits.
TrainerOptions with_fastest_batch(const TrainingJob& job,
                                  const TrainerOptions& options,
                                  TrainingObserver& observer,
                                  const World& world);

}  // namespace reprise
