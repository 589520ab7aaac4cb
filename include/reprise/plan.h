// Memory budgets: say how many bytes activations may take, get the fastest step within them.
//
//   using namespace reprise::literals;
//   const auto plan = reprise::plan([&] { loss(batch).backward(); }, device, {.budget = 6_GiB});
//   std::cout << plan.describe();
//   for (const auto& batch : batches) {
//     reprise::PlanGuard use(plan);
//     loss(batch).backward();
//     use.finish();
//   }
//
// The step's blocks are regions (reprise::checkpoint, apply_activation_checkpointing, a Model's
// enable_checkpointing). The plan decides which of them run plainly, and which results the others
// keep, offload to host memory (with a host_budget) or compress; the rest is computed again. Blocks
// of a Model may also be joined: several are computed again from the input of the first. Loss and
// gradients are the same to the last bit under every plan, unless allow_lossy is set.
// docs/planner.md says what is predicted and how.
//
// Activation bytes are those alive on the device beyond what was alive when the step began, without
// the gradients that are in place: kept tensors, working memory, chunks of the loss.
#pragma once

#include <reprise/export.h>
#include <reprise/plan_report.h>
#include <reprise/region_decision.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

inline namespace literals {
// NOLINTBEGIN(google-runtime-int): the type that the language prescribes
constexpr int64_t operator""_KiB(unsigned long long count) {
  return static_cast<int64_t>(count) << 10;
}
constexpr int64_t operator""_MiB(unsigned long long count) {
  return static_cast<int64_t>(count) << 20;
}
constexpr int64_t operator""_GiB(unsigned long long count) {
  return static_cast<int64_t>(count) << 30;
}
// NOLINTEND(google-runtime-int)
}  // namespace literals

struct PlanOptions {
  /// Most activation bytes of a step. Has to be given: a plan without a budget is no plan.
  int64_t budget = 0;
  /// Most bytes of host memory that what is offloaded may take; 0: nothing is offloaded. Set with
  /// set_offload_settings (offload.h), a budget holds in every step; this one is for planning.
  int64_t host_budget = 0;
  /// Let plans compress floating numbers: gradients are then no longer those of plain training.
  /// What does so is marked LOSSY in describe(). Masks are compressed exactly and need no leave.
  bool allow_lossy = false;
  /// Budgets, peaks and the curve then cover the gradients that come into being in the step, too:
  /// all that it adds to the device.
  bool counts_gradients = false;
};

/// A budget at which the step becomes faster, and by how much it is slower than without regions.
struct PlanPoint {
  int64_t peak_bytes = 0;
  double extra_ms = 0;
};

/// What a step shall do with its regions. Cheap to copy.
class REPRISE_API MemoryPlan {
 public:
  /// A plan that was made before and written down (plan_file.h); its budget is its peak. There is
  /// no trace behind it: curve() is empty, and what asks for another plan or for reasons throws.
  static MemoryPlan of(std::vector<RegionDecision> decisions, int64_t peak_bytes, double extra_ms);

  int64_t budget() const;
  /// Predicted, at most budget().
  int64_t peak_bytes() const;
  /// Host memory for what is offloaded, at most PlanOptions::host_budget.
  int64_t host_bytes() const;
  /// Predicted, over the same step without regions.
  double extra_ms() const;
  /// All plans worth having, from the least bytes (slowest) to the most. Budgets below the first
  /// are refused; above the last nothing is gained.
  const std::vector<PlanPoint>& curve() const;
  /// One for each outermost region, in the order of the step.
  const std::vector<RegionDecision>& decisions() const;
  /// The same step under another budget.
  MemoryPlan with_budget(int64_t bytes) const;
  /// What every region does, a line for each run of equal ones.
  std::string describe() const;

  /// Whether the plan was made from a traced step, which what follows needs.
  bool has_trace() const;
  /// What the step holds as time goes by; its peak is peak_bytes().
  StepTimeline timeline() const;
  /// The same step without checkpointing.
  StepTimeline plain_timeline() const;
  /// What becomes of every result, and why.
  std::vector<PlanRow> explain() const;

 private:
  friend class PlanGuard;
  friend REPRISE_API MemoryPlan plan(const std::function<void()>& step,
                                     c10::Device device,
                                     const PlanOptions& options);
  struct State;
  explicit MemoryPlan(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

/// Runs `step` once (on a GPU twice), a forward and a backward on the calling thread, with every
/// region recomputed in full, and plans it. Gradients, the random state of the default generators
/// and what forward writes in place are afterwards as they were. On the CPU call track_cpu_memory()
/// first thing in main(). Throws, and names the least budget, if no plan fits.
REPRISE_API MemoryPlan plan(const std::function<void()>& step,
                            c10::Device device,
                            const PlanOptions& options);

/// The plan is in force on this thread while the guard lives: around the forward of one step that
/// has the planned regions, in their order and with their names; a step that is recorded
/// (step_graph.h) makes its own inside. Outermost regions alone are planned: those inside one run
/// as they ask. A step that differs is an error.
class REPRISE_API PlanGuard {
 public:
  explicit PlanGuard(const MemoryPlan& plan);
  ~PlanGuard();
  PlanGuard(const PlanGuard&) = delete;
  PlanGuard& operator=(const PlanGuard&) = delete;

  /// The step's forward is over. Throws if it ran fewer regions than planned, which nothing else
  /// would notice.
  void finish() const;

 private:
  class InForce;
  std::unique_ptr<InForce> in_force_;
};

}  // namespace reprise
