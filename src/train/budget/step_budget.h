// Training within a budget of bytes: plans every micro-batch, holds the plan while it runs, and
// stops the run if the bytes are not enough after all.
//
// Note [What a budget bounds]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A budget of activations bounds each micro-batch's bytes beyond what was alive before it and the
// gradients that it leaves. A budget of everything bounds all bytes alive on the device from the
// step's begin to the end of the optimizer's update. Both are minded by the allocator
// (memory/allocation_watch.h). Plans aim a little below (planned_bytes), because allocators round.
// Tracing recomputes every block, which is about the least, and is not bounded.
#pragma once

#include "memory/allocation_watch.h"
#include "plan/activation_meter.h"
#include "train/budget/shape_plans.h"

#include <reprise/io/json.h>
#include <reprise/model/model.h>
#include <reprise/offload.h>
#include <reprise/optim/optimizer.h>
#include <reprise/train/effect.h>
#include <reprise/train/memory_budget.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// What one step did under its plans.
struct BudgetOutcome {
  int64_t budget_bytes = 0;     ///< of what the limits are about
  int64_t predicted_bytes = 0;  ///< the most of its micro-batches
  int64_t measured_bytes = 0;
  double planning_ms = 0;  ///< spent before the step

  Json to_json() const;
};

class StepBudget {
 public:
  /// `limits` must be set. The model's blocks are all regions. `role` is its place in plan files.
  StepBudget(const MemoryLimits& limits,
             const std::string& role,
             const Model& model,
             const Optimizer& optimizer);
  ~StepBudget();
  StepBudget(const StepBudget&) = delete;
  StepBudget& operator=(const StepBudget&) = delete;

  /// One micro-batch of the step that begins.
  struct MicroBatch {
    BatchShape shape;
    std::function<void()> forward_backward;  ///< for tracing; leaves nothing behind
  };
  /// Before the step: plans what is not planned yet. Throws, and says the least that would do, if
  /// no plan fits.
  void begin_step(const std::vector<MicroBatch>& micro_batches);

  /// In force around the forward and backward of micro-batch `index`.
  class Use {
   public:
    Use(StepBudget& budget, size_t index);
    void end_forward();  ///< throws if it was not the planned one
    void end_backward();

   private:
    StepBudget& budget_;
    size_t index_;
    std::optional<planning::PlanGuard> guard_;
    std::optional<planning::ActivationMeter> meter_;
  };

  /// After the optimizer's update.
  BudgetOutcome end_step();

  /// What the plans of this step make of each region, by name; those that run plainly are not in
  /// it.
  std::map<std::string, RegionRuns> regions() const;

  /// The step failed: nothing is watched any more. Returns what a message about memory that ran out
  /// adds: which budget, and what was planned.
  std::string give_up();

  const MemoryLimits& limits() const { return limits_; }
  const ShapePlans& plans() const { return plans_; }
  int64_t budget_bytes() const { return budget_bytes_; }
  int64_t gradient_bytes() const { return gradient_bytes_; }
  int64_t optimizer_bytes() const { return optimizer_.bytes(); }
  /// Of the steps so far, the first thousand.
  const std::vector<int64_t>& measured() const { return measured_; }

 private:
  void follow(const std::string& role);
  bool is_total() const { return limits_.total.has_value(); }
  const Budget& asked() const { return is_total() ? *limits_.total : *limits_.activations; }
  ShapePlan plan(std::shared_ptr<const planning::StepTrace> trace, bool has_gradients);
  void choose(ShapePlan& plan, bool has_gradients);
  planning::StepTrace trace(const MicroBatch& micro_batch) const;
  int64_t base_bytes(bool has_gradients) const;
  int64_t resolve(const planning::StepPlanner& planner, int64_t base) const;
  int64_t automatic_bytes() const;
  int64_t limit_above(int64_t base) const;

  MemoryLimits limits_;
  const Model& model_;
  const Optimizer& optimizer_;
  std::vector<at::Tensor> trained_;
  int64_t gradient_bytes_ = 0;
  ShapePlans plans_;
  int64_t budget_bytes_ = 0;     // grows with the shapes if the budget is relative to them
  int64_t automatic_bytes_ = 0;  // once known
  int64_t start_bytes_ = 0;      // alive when the step began
  std::vector<ShapePlan*> step_;
  std::optional<detail::AllocationWatch> watch_;  // of a budget of everything
  BudgetOutcome outcome_;
  std::vector<int64_t> measured_;
  std::optional<OffloadSettings> settings_before_;  // of the process
};

}  // namespace reprise
