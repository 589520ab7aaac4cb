// The flags of the learning rate's course as options of the optimizer library.
#include "reprise/training/flags.h"

#include <cmath>

namespace reprise::app {

ScheduleOptions schedule_options(const TrainingFlags& flags) {
  ScheduleOptions options;
  options.kind = schedule_named(flags.lr_scheduler_type);
  // transformers' default of warmup_stable_decay; of the other it has none, OpenRLHF's is 0.1.
  const bool decays_late = options.kind == ScheduleKind::WarmupStableDecay;
  options.min_ratio = flags.min_lr_ratio.value_or(decays_late ? 0 : 0.1);
  options.decay_steps = flags.lr_decay_steps;
  return options;
}

double warmup_of(const TrainingFlags& flags) {
  if (flags.warmup_ratio == 0) {
    return flags.warmup_steps;
  }
  // 1 would be a count, of one step. The share next below it is rounded up to all of them.
  return flags.warmup_ratio < 1 ? flags.warmup_ratio : std::nextafter(1.0, 0.0);
}

}  // namespace reprise::app
