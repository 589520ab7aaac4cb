// Plans for budgets that cover everything on the device, as peers count it: what exists before the
// step (weights, the batch), and what the step adds, including gradients.
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
#include <stdexcept>
#include <string>
#include <utility>

namespace gpu {

/// Prefix of such a mode: budget:10 is 10 GiB; there are also budget:min and budget:max.
inline const std::string kBudget = "budget:";

struct BudgetTooSmall : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class StepBudgets {
 public:
  /// Plans immediately. `step` is forward and backward with every block checkpointed, and must
  /// leave no gradients. Plans offload at most `host_budget` bytes; 0: nothing.
  StepBudgets(const std::function<void()>& step, c10::Device device, int64_t host_budget)
      : start_bytes_(reprise::live_bytes(device)),
        start_(std::chrono::steady_clock::now()),
        widest_(reprise::plan(
            step,
            device,
            {.budget = kEverything, .host_budget = host_budget, .counts_gradients = true})),
        plan_ms_(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
                .count()) {}

  /// Time of tracing and planning.
  double plan_ms() const { return plan_ms_; }
  /// Live bytes before the step.
  int64_t start_bytes() const { return start_bytes_; }

  struct Choice {
    int64_t budget;
    reprise::MemoryPlan plan;
  };

  /// `text` is the part after "budget:". Throws BudgetTooSmall if no plan fits.
  Choice choose(const std::string& text) const {
    const int64_t least = widest_.curve().front().peak_bytes;
    if (text == "min" || text == "max") {
      const int64_t peak = text == "min" ? least : widest_.curve().back().peak_bytes;
      return {start_bytes_ + peak, widest_.with_budget(peak)};
    }
    const auto budget = bytes_of(text);
    // The CUDA allocator may return free blocks that are a little larger than requested.
    const int64_t usable = budget - budget / 1000 - start_bytes_;
    if (least > usable) {
      throw BudgetTooSmall("no plan fits: the least takes " +
                           std::to_string(static_cast<double>(start_bytes_ + least) / 0x1p30) +
                           " GiB");
    }
    return {budget, widest_.with_budget(usable)};
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

  int64_t start_bytes_;
  std::chrono::steady_clock::time_point start_;
  reprise::MemoryPlan widest_;
  double plan_ms_;
};

/// The properties of a plan.
inline reprise::Json plan_line(const StepBudgets& budgets, const StepBudgets::Choice& choice) {
  const auto& decisions = choice.plan.decisions();
  size_t kept = 0;
  for (const auto& decision : decisions) {
    kept += decision.ops.size();
  }
  return {{"budget_bytes", choice.budget},
          {"predicted_bytes", budgets.start_bytes() + choice.plan.peak_bytes()},
          {"predicted_host_bytes", choice.plan.host_bytes()},
          {"predicted_extra_ms", choice.plan.extra_ms()},
          {"regions", decisions.size()},
          {"plain_regions",
           std::count_if(
               decisions.begin(), decisions.end(), [](const auto& one) { return one.is_plain; })},
          {"kept_results", kept}};
}

}  // namespace gpu
