// Plans for budgets of everything on the device, as peers count it: weights, gradients,
// activations.
//
// The planner speaks of activations. How many gradients are there already when they peak depends on
// the plan, so plans are picked by the peak of one step under each: of the curve's plans, which
// grow in bytes, the last that fits. What the planner predicted is reported beside what was
// measured of the same bytes.
#pragma once

#include <reprise/io/json.h>
#include <reprise/memory.h>
#include <reprise/plan.h>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace gpu {

/// How such a mode begins: budget:10 is 10 GiB, and there are budget:min and budget:max.
inline const std::string kBudget = "budget:";

struct BudgetTooSmall : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class StepBudgets {
 public:
  /// Runs a step under a plan and returns the most bytes that were alive.
  using PeakUnder = std::function<int64_t(const reprise::MemoryPlan&)>;

  /// Plans at once. `step` is forward and backward, with every block a region.
  StepBudgets(const std::function<void()>& step, c10::Device device, PeakUnder peak_under)
      : start_(std::chrono::steady_clock::now()),
        widest_(reprise::plan(step, device, {.budget = kEverything})),
        plan_ms_(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
                .count()),
        peak_under_(std::move(peak_under)) {}

  /// Of tracing and planning together.
  double plan_ms() const { return plan_ms_; }

  struct Choice {
    int64_t budget;
    reprise::MemoryPlan plan;
  };

  /// `text` is what follows "budget:". Throws BudgetTooSmall if nothing fits.
  Choice choose(const std::string& text) {
    const size_t last = widest_.curve().size() - 1;
    if (text == "min" || text == "max") {
      const size_t place = text == "min" ? 0 : last;
      return {peak_of(place), plan_at(place)};
    }
    const auto budget = bytes_of(text);
    if (peak_of(0) > budget) {
      throw BudgetTooSmall("no plan fits: the least takes " +
                           std::to_string(static_cast<double>(peak_of(0)) / 0x1p30) + " GiB");
    }
    // A CUDA allocator gives blocks that are a little larger than asked for, by what it has free.
    const int64_t without_rounding = budget - budget / 1000;
    size_t fits = 0, above = last + 1;
    while (above - fits > 1) {
      const size_t middle = fits + (above - fits) / 2;
      (peak_of(middle) <= without_rounding ? fits : above) = middle;
    }
    return {budget, plan_at(fits)};
  }

 private:
  static constexpr int64_t kEverything = int64_t{1} << 50;

  static int64_t bytes_of(const std::string& gib) {
    char* end = nullptr;
    const double value = std::strtod(gib.c_str(), &end);
    TORCH_CHECK(value > 0 && *end == '\0',
                "[budget] expected GiB, min or max after \"budget:\", got \"",
                gib,
                "\"");
    return static_cast<int64_t>(value * 0x1p30);
  }

  reprise::MemoryPlan plan_at(size_t place) const {
    return widest_.with_budget(widest_.curve()[place].peak_bytes);
  }

  int64_t peak_of(size_t place) {
    const auto known = peaks_.find(place);
    return known != peaks_.end() ? known->second
                                 : peaks_.emplace(place, peak_under_(plan_at(place))).first->second;
  }

  std::chrono::steady_clock::time_point start_;
  reprise::MemoryPlan widest_;
  double plan_ms_;
  PeakUnder peak_under_;
  std::map<size_t, int64_t> peaks_;
};

/// What a plan says of itself.
inline reprise::Json plan_line(const StepBudgets::Choice& choice) {
  const auto& decisions = choice.plan.decisions();
  size_t kept = 0;
  for (const auto& decision : decisions) {
    kept += decision.ops.size();
  }
  return {{"budget_bytes", choice.budget},
          {"predicted_bytes", choice.plan.peak_bytes()},
          {"predicted_extra_ms", choice.plan.extra_ms()},
          {"regions", decisions.size()},
          {"plain_regions",
           std::count_if(
               decisions.begin(), decisions.end(), [](const auto& one) { return one.is_plain; })},
          {"kept_results", kept}};
}

}  // namespace gpu
