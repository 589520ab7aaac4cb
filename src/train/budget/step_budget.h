// Training within a memory budget: plans every micro-batch, applies the plan while it runs, and
// stops the run if it exceeds the budget after all.
//
// Note [What a budget bounds]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A budget for activations bounds the bytes of each micro-batch beyond what was alive before it and
// the gradients that it leaves. A total budget bounds all bytes alive on the device from the start
// of the step to the end of the optimizer's update. Both are enforced at every allocation
// (memory/allocation_watch.h). Plans aim a little below (planned_bytes), because allocators round.
// Tracing is not bounded; it recomputes every block, which takes about the least possible.
//
// Note [Budgets of several processes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Each process plans the shapes of its own micro-batches, by itself (Note [Rehearsals]), within its
// own budget. Plans of different processes may differ, because collectives belong to units and not
// to decisions: whatever a block does, backward passes its output, which gathers its unit, then its
// input, which reduces it. Sharded models join no blocks, which would run units once more.
// What a micro-batch gathers and reduces exists at the same moments under every plan. It is part of
// the trace and counts like an activation; the sums that stay are gradients.
#pragma once

#include "memory/allocation_watch.h"
#include "plan/measure/activation_meter.h"
#include "train/budget/placement.h"
#include "train/budget/shape_plans.h"
#include "train/loop/effect_check.h"

#include <reprise/io/json.h>
#include <reprise/model/model.h>
#include <reprise/offload.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>
#include <reprise/train/memory_budget.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// What one step did under its plans.
struct BudgetOutcome {
  int64_t budget_bytes = 0;     ///< for what the limits cover
  int64_t predicted_bytes = 0;  ///< maximum over its micro-batches
  int64_t measured_bytes = 0;
  double planning_ms = 0;          ///< spent before the step, and before the run for its first step
  double planning_in_step_ms = 0;  ///< the part of it since the step began

  Json to_json() const;
  /// The largest number of any process. A collective.
  BudgetOutcome most_of(const World& world) const;
};

class StepBudget {
 public:
  /// `limits` must be set, and all blocks of the model must be regions. `role` names the model in
  /// plan files.
  StepBudget(const MemoryLimits& limits,
             const std::string& role,
             const Model& model,
             const Optimizer& optimizer);
  ~StepBudget();
  StepBudget(const StepBudget&) = delete;
  StepBudget& operator=(const StepBudget&) = delete;

  /// Gets a shape whose plan takes longer than a second, once, while it is made.
  using Report = std::function<void(int64_t rows, int64_t length)>;
  void report_planning(Report report) { report_ = std::move(report); }

  /// One micro-batch of the step that begins.
  struct MicroBatch {
    BatchShape shape;
    /// For tracing; must have no lasting effects. If the model is sharded, with begin_micro_batch()
    /// for the last micro-batch and end_backward().
    std::function<void()> forward_backward;
  };
  /// Call before the step: plans the shapes that are not planned yet. If no plan fits, throws and
  /// names the least budget.
  void begin_step(const std::vector<MicroBatch>& micro_batches);

  /// Plans a micro-batch of the run before its first step. `repeats`: steps have several. The
  /// largest ones, planned here, tell at the start whether the budget is enough for the whole run.
  void plan_ahead(const MicroBatch& micro_batch, bool repeats);

  /// Call when the optimizer's state or gradients have left the device: plans are made anew.
  void forget_plans();

  /// What this process has spent on the step's plans, and how long the step waited for those of
  /// all.
  double planning_ms() const { return outcome_.planning_in_step_ms; }
  void note_time(double ms);

  // From here to regions(): in planned_micro_batch.cpp.

  /// Applies the plan around the forward and backward of micro-batch `index`.
  class Use {
   public:
    /// `on_gradient` hears of gradients in place.
    Use(StepBudget& budget, size_t index, planning::GradientHooks::Listener on_gradient);
    void end_forward();   ///< throws if the forward was not the planned one
    void end_backward();  ///< also reductions have ended

   private:
    std::vector<at::Tensor> with_gradients() const;

    StepBudget& budget_;
    size_t index_;
    std::optional<planning::DecisionsGuard> guard_;
    std::optional<planning::ActivationMeter> meter_;
    std::optional<planning::GradientHooks> hooks_;  // if there is no meter
  };

  /// Call after the optimizer's update.
  BudgetOutcome end_step();

  /// How often the plans of this step run each region, by name; without plain regions.
  std::map<std::string, RegionRuns> regions() const;

  /// Call when the step failed: stops enforcing the budget. Returns text about the budget and the
  /// plan, to be added to an out-of-memory message.
  std::string give_up();

  const MemoryLimits& limits() const { return limits_; }
  const ShapePlans& plans() const { return plans_; }
  int64_t budget_bytes() const { return budget_bytes_; }
  int64_t gradient_bytes() const { return gradient_bytes_; }
  Placement placement() const {
    return {optimizer_.host_bytes() > 0, optimizer_.host_gradients() != nullptr};
  }
  int64_t optimizer_bytes() const { return optimizer_.bytes() - optimizer_.host_bytes(); }
  /// Measured peaks of the first thousand steps.
  const std::vector<int64_t>& measured() const { return measured_; }

 private:
  void follow(const std::string& role);
  ShapePlans fresh_plans();
  void note_gradients();
  bool is_total() const { return limits_.total.has_value(); }
  const Budget& asked() const { return is_total() ? *limits_.total : *limits_.activations; }
  ShapePlan plan(std::shared_ptr<const planning::StepTrace> trace, bool has_gradients);
  void choose(ShapePlan& plan, bool has_gradients);
  planning::StepTrace trace(const MicroBatch& micro_batch) const;
  int64_t base_bytes(bool has_gradients) const;
  int64_t update_peak() const;
  int64_t resolve(const planning::StepPlanner& planner, int64_t base) const;
  int64_t automatic_bytes() const;
  int64_t limit_above(int64_t base) const;

  MemoryLimits limits_;
  Report report_;
  const Model& model_;
  const Optimizer& optimizer_;
  ShardedModel* sharded_;            // null: the model is not sharded over processes
  std::vector<at::Tensor> trained_;  // whose gradients stay on the device
  int64_t gradient_bytes_ = 0;
  ShapePlans plans_;
  int64_t budget_bytes_ = 0;     // grows with the shapes if the budget is relative
  int64_t automatic_bytes_ = 0;  // 0 until known
  int64_t start_bytes_ = 0;      // alive when the step began
  std::vector<ShapePlan*> step_;
  std::string planned_for_ = "such a micro-batch";  // in messages
  std::optional<memory::AllocationWatch> watch_;    // enforces a total budget
  BudgetOutcome outcome_;
  double ahead_ms_ = 0;  // spent on plan_ahead since the last step
  std::vector<int64_t> measured_;
  std::optional<OffloadSettings> settings_before_;  // the process's, to be restored
};

}  // namespace reprise
