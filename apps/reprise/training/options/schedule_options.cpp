#include "reprise/training/options/schedule_options.h"

#include <cmath>

namespace reprise::app {

ScheduleOptions schedule_options(const TrainingFlags& flags) {
  ScheduleOptions options;
  options.kind = schedule_named(flags.lr_scheduler_type);
  // transformers' default for warmup_stable_decay is 0. It has none for cosine_with_min_lr, where
  // OpenRLHF's is 0.1.
  const bool decays_late = options.kind == ScheduleKind::WarmupStableDecay;
  options.min_ratio = flags.min_lr_ratio.value_or(decays_late ? 0 : 0.1);
  options.decay_steps = flags.lr_decay_steps;
  return options;
}

double warmup_of(const TrainingFlags& flags) {
  if (flags.warmup_ratio == 0) {
    return flags.warmup_steps;
  }
  // 1 would mean one step. The largest fraction below 1 is rounded up to all steps.
  return flags.warmup_ratio < 1 ? flags.warmup_ratio : std::nextafter(1.0, 0.0);
}

}  // namespace reprise::app
