// The size of micro-batches that is fastest within a budget: tried, not guessed.
//
// Freed memory is worth something only if it buys speed: a larger micro-batch that recomputes more
// may be faster than a small one that keeps everything, or not. Every size that divides the rows of
// an optimizer step is planned and run once on the longest rows, until one does not fit.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/train/trainer.h>

namespace reprise {

/// The same options with the fastest batch_size, and with the accumulation that keeps the rows of a
/// step. A run that goes on keeps what it began with. Throws if not even the smallest fits.
TrainerOptions with_fastest_batch(const TrainingJob& job,
                                  const TrainerOptions& options,
                                  TrainingObserver& observer,
                                  const World& world);

}  // namespace reprise
