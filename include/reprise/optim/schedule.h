// Learning-rate schedules with the formulas of transformers' get_scheduler.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <optional>
#include <string>

namespace reprise {

enum class ScheduleKind : uint8_t {
  Constant,
  ConstantWithWarmup,
  Linear,
  Cosine,
  CosineWithMin,
  WarmupStableDecay,
};

/// The shape of WarmupStableDecay's warmup and decay. OneMinusSqrt is "1-sqrt" in transformers.
enum class RampShape : uint8_t { Linear, Cosine, OneMinusSqrt };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::Linear;
  int64_t warmup_steps = 0;
  /// CosineWithMin and WarmupStableDecay: the minimum, as a fraction of the learning rate. The
  /// warmup of WarmupStableDecay also starts there. Unset: see least_ratio().
  std::optional<double> min_ratio = std::nullopt;
  double cycles = 0.5;  ///< cosine kinds, and WarmupStableDecay with a cosine decay

  // WarmupStableDecay only.
  int64_t decay_steps = 0;
  std::optional<int64_t> stable_steps = std::nullopt;  ///< unset: the rest of the total
  RampShape warmup_shape = RampShape::Linear;
  RampShape decay_shape = RampShape::Cosine;
};

/// Parses "linear", "cosine", "cosine_with_min_lr", "warmup_stable_decay" (or "wsd"), "constant" or
/// "constant_with_warmup". Throws for any other name, and lists these.
REPRISE_API ScheduleKind schedule_named(const std::string& name);

/// min_ratio, or the default of the kind: 0 for WarmupStableDecay, as in transformers, and
/// otherwise 0.1, which is OpenRLHF's default for CosineWithMin (transformers has none).
REPRISE_API double least_ratio(const ScheduleOptions& options);

/// The learning-rate factor of optimizer step `step` (from 0) out of `total`.
REPRISE_API double learning_rate_factor(const ScheduleOptions& options,
                                        int64_t step,
                                        int64_t total);

/// The number of warmup steps: `warmup_steps` itself if it is at least 1; otherwise that fraction
/// of `total`, rounded up.
REPRISE_API int64_t warmup_count(double warmup_steps, int64_t total);

}  // namespace reprise
