// Learning-rate schedules, as transformers' get_scheduler gives them.
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

/// How WarmupStableDecay rises and falls; OneMinusSqrt is "1-sqrt" in transformers.
enum class RampShape : uint8_t { Linear, Cosine, OneMinusSqrt };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::Linear;
  int64_t warmup_steps = 0;
  /// CosineWithMin, WarmupStableDecay: the least, as a share of the rate. The latter's warmup
  /// begins there too. Unset: least_ratio() says.
  std::optional<double> min_ratio = std::nullopt;
  double cycles = 0.5;  ///< Cosine kinds, and WarmupStableDecay with a cosine decay

  // WarmupStableDecay only.
  int64_t decay_steps = 0;
  std::optional<int64_t> stable_steps = std::nullopt;  ///< unset: what is left of the total
  RampShape warmup_shape = RampShape::Linear;
  RampShape decay_shape = RampShape::Cosine;
};

/// "linear", "cosine", "cosine_with_min_lr", "warmup_stable_decay" (also "wsd"), "constant",
/// "constant_with_warmup". Throws for another name, listing these.
REPRISE_API ScheduleKind schedule_named(const std::string& name);

/// min_ratio, or where it is unset the kind's default: 0 for WarmupStableDecay as in transformers,
/// which has none for CosineWithMin; there it is OpenRLHF's 0.1.
REPRISE_API double least_ratio(const ScheduleOptions& options);

/// The factor of the learning rate for optimizer step `step`, from 0, of `total`.
REPRISE_API double learning_rate_factor(const ScheduleOptions& options,
                                        int64_t step,
                                        int64_t total);

/// warmup_steps of at least 1 is a count; below 1 it is a share of `total`, rounded up.
REPRISE_API int64_t warmup_count(double warmup_steps, int64_t total);

}  // namespace reprise
