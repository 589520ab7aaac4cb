// Learning-rate factors, with the same arithmetic in the same order as transformers.optimization,
// so that the numbers agree to the last digits.
#include <reprise/optim/schedule.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace reprise {
namespace {

constexpr std::array<std::pair<const char*, ScheduleKind>, 7> kNames = {{
    {"constant", ScheduleKind::Constant},
    {"constant_with_warmup", ScheduleKind::ConstantWithWarmup},
    {"linear", ScheduleKind::Linear},
    {"cosine", ScheduleKind::Cosine},
    {"cosine_with_min_lr", ScheduleKind::CosineWithMin},
    {"warmup_stable_decay", ScheduleKind::WarmupStableDecay},
    {"wsd", ScheduleKind::WarmupStableDecay},
}};

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

/// From 1 to 0 and back, `cycles` times while progress goes from 0 to 1.
double wave(double cycles, double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress));
}

double at_least(double least, double factor) {
  return std::max(0.0, factor * (1 - least) + least);
}

double rise(RampShape shape, double progress) {
  switch (shape) {
    case RampShape::Linear:
      return progress;
    case RampShape::Cosine:
      return 0.5 * (1 - std::cos(std::numbers::pi * progress));
    case RampShape::OneMinusSqrt:
      return 1 - std::sqrt(1 - progress);
  }
  TORCH_INTERNAL_ASSERT(false);
}

double fall(RampShape shape, double cycles, double progress) {
  switch (shape) {
    case RampShape::Linear:
      return 1 - progress;
    case RampShape::Cosine:
      return wave(cycles, progress);
    case RampShape::OneMinusSqrt:
      return 1 - std::sqrt(progress);
  }
  TORCH_INTERNAL_ASSERT(false);
}

double warmup_stable_decay(const ScheduleOptions& options, int64_t step, int64_t total) {
  const double least = least_ratio(options);
  if (step < options.warmup_steps) {
    return at_least(least, rise(options.warmup_shape, share(step, options.warmup_steps)));
  }
  const int64_t stable =
      options.stable_steps.value_or(total - options.warmup_steps - options.decay_steps);
  const int64_t into_decay = step - options.warmup_steps - stable;
  if (into_decay < 0) {
    return 1;
  }
  if (into_decay >= options.decay_steps) {
    return least;
  }
  const double progress = share(into_decay, options.decay_steps);
  return at_least(least, fall(options.decay_shape, options.cycles, progress));
}

void check_options(const ScheduleOptions& options, int64_t step, int64_t total) {
  TORCH_CHECK(step >= 0 && total >= 0,
              "[schedule] expected step and total of at least 0, got step ",
              step,
              " of ",
              total);
  TORCH_CHECK(options.warmup_steps >= 0 && options.decay_steps >= 0 &&
                  options.stable_steps.value_or(0) >= 0,
              "[schedule] expected counts of steps of at least 0, got warmup_steps ",
              options.warmup_steps,
              ", decay_steps ",
              options.decay_steps,
              ", stable_steps ",
              options.stable_steps.value_or(0));
  const double least = least_ratio(options);
  TORCH_CHECK(least >= 0 && least <= 1, "[schedule] min_ratio: expected 0 to 1, got ", least);
}

}  // namespace

ScheduleKind schedule_named(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [text, kind] : kNames) {
    if (name == text) {
      return kind;
    }
    known.emplace_back(text);
  }
  TORCH_CHECK(false,
              "[schedule] there is no schedule \"",
              name,
              "\": expected one of ",
              c10::Join(", ", known));
}

double least_ratio(const ScheduleOptions& options) {
  return options.min_ratio.value_or(options.kind == ScheduleKind::WarmupStableDecay ? 0 : 0.1);
}

double learning_rate_factor(const ScheduleOptions& options, int64_t step, int64_t total) {
  check_options(options, step, total);
  if (options.kind == ScheduleKind::Constant) {
    return 1;
  }
  if (options.kind == ScheduleKind::WarmupStableDecay) {
    return warmup_stable_decay(options, step, total);
  }
  if (step < options.warmup_steps) {
    return share(step, options.warmup_steps);
  }
  const int64_t rest = total - options.warmup_steps;
  const double progress = share(step - options.warmup_steps, rest);
  switch (options.kind) {
    case ScheduleKind::Linear:
      return std::max(0.0, share(total - step, rest));
    case ScheduleKind::Cosine:
      return std::max(0.0, wave(options.cycles, progress));
    case ScheduleKind::CosineWithMin:
      return at_least(least_ratio(options), wave(options.cycles, progress));
    default:  // ConstantWithWarmup; the other kinds returned above
      return 1;
  }
}

int64_t warmup_count(double warmup_steps, int64_t total) {
  // Above 2^53 doubles skip integers. Such a count is a mistake, and infinity is not a count.
  TORCH_CHECK(warmup_steps >= 0 && warmup_steps < 9007199254740992.0,
              "[schedule] warmup_steps: expected a count, or a share of the steps below 1, got ",
              warmup_steps);
  TORCH_CHECK(total >= 0, "[schedule] expected a total of at least 0 steps, got ", total);
  const double count =
      warmup_steps >= 1 ? warmup_steps : std::ceil(static_cast<double>(total) * warmup_steps);
  return static_cast<int64_t>(count);
}

}  // namespace reprise
