// Memory budgets: give the bytes that activations may take, and get the fastest step within them.
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
// The blocks of the step are checkpointed regions (reprise::checkpoint,
// apply_activation_checkpointing, a Model's enable_checkpointing). The plan decides which of them
// run plainly, as if they were no regions, and which results the others keep, offload to host
// memory (with a host_budget) or compress; everything else is recomputed in backward. Blocks of a
// Model may also be joined: several are recomputed from the input of the first. Loss and gradients
// are the same to the last bit under every plan, unless allow_lossy is set. docs/planner.md
// explains what is predicted and how.
//
// Activation bytes are the bytes alive on the device beyond those alive when the step began,
// without the gradients already accumulated: kept tensors, working memory, chunks of the loss.
#pragma once

#include <reprise/export.h>
#include <reprise/plan_report.h>
#include <reprise/region_decision.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

inline namespace literals {
// NOLINTBEGIN(google-runtime-int): the type that the language requires
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
  /// Most activation bytes of a step. Required.
  int64_t budget = 0;
  /// Most bytes of host memory for offloaded tensors; 0: nothing is offloaded. This limits the
  /// plan; the limit in set_offload_settings (offload.h) is enforced in every step.
  int64_t host_budget = 0;
  /// Allows lossy compression of floating-point results: gradients then differ from those of plain
  /// training, and describe() marks such regions LOSSY. Masks are compressed exactly and need no
  /// permission.
  bool allow_lossy = false;
  /// Budgets, peaks and the curve also cover the gradients that the step creates, that is,
  /// everything that it adds to the device.
  bool counts_gradients = false;
  /// Guards hold the budget at every allocation: one that would exceed it throws
  /// c10::OutOfMemoryError. As allocators round, plans aim a little lower. Without this, finish()
  /// compares the peak of the step.
  bool is_enforced = false;
  /// With is_enforced: bytes of the budget that plans leave free, for what differs from step to
  /// step, such as buffers of collectives that end at any time.
  int64_t reserve = 0;
};

/// A budget at which the step becomes faster.
struct PlanPoint {
  int64_t peak_bytes = 0;
  double extra_ms = 0;  ///< over the same step without regions
};

/// What a step does with its regions. Cheap to copy.
class REPRISE_API MemoryPlan {
 public:
  /// A plan from decisions made earlier, such as those in a plan file. Its budget is its peak. It
  /// has no trace: curve() is empty, and with_budget(), timelines and explain() throw.
  static MemoryPlan of(std::vector<RegionDecision> decisions, int64_t peak_bytes, double extra_ms);

  int64_t budget() const;
  /// Predicted; at most budget().
  int64_t peak_bytes() const;
  /// Host memory for offloaded tensors; at most PlanOptions::host_budget.
  int64_t host_bytes() const;
  /// Predicted, over the same step without regions.
  double extra_ms() const;
  /// All plans worth having, from the fewest bytes (slowest) to the most. A budget below the first
  /// is refused; one above the last gains nothing.
  const std::vector<PlanPoint>& curve() const;
  /// One for each outermost region, in the order of the step's forward.
  const std::vector<RegionDecision>& decisions() const;
  /// The same step under another budget.
  MemoryPlan with_budget(int64_t bytes) const;
  /// The same decisions for steps that are only similar: of other shapes, or whose work depends on
  /// values, such as the routing of experts. The n-th region of a name does what was planned for
  /// the n-th of that name; one more recomputes everything. Only bytes are compared. A plan that
  /// joins regions is refused.
  MemoryPlan for_similar_steps() const;
  /// The plan of a step whose shapes are `share` (0 to 1) of the way between those of two traced
  /// ones, for steps of at most these sizes. std::nullopt if the two ran different operators.
  static std::optional<MemoryPlan> between(const MemoryPlan& from,
                                           const MemoryPlan& to,
                                           double share);
  /// What every region does, with one line for each run of regions that do the same.
  std::string describe() const;

  /// Whether the plan was made from a traced step. The functions below need one.
  bool has_trace() const;
  /// The memory of the step over time; its peak is peak_bytes().
  StepTimeline timeline() const;
  /// The same step without checkpointing.
  StepTimeline plain_timeline() const;
  /// What happens to every result, and why.
  std::vector<PlanRow> explain() const;

 private:
  friend class PlanGuard;
  friend REPRISE_API MemoryPlan plan(const std::function<void()>& step,
                                     c10::Device device,
                                     const PlanOptions& options);
  friend class StepRecording;
  struct State;
  explicit MemoryPlan(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

/// Traces `step`, a forward and a backward on the calling thread, and plans it. The step runs once
/// (twice on a GPU), with every region recomputed in full. Afterwards gradients, the default random
/// generators and tensors that forward writes in place are as they were before. On the CPU, call
/// track_cpu_memory() at the start of main(). If no plan fits, throws and names the least budget.
///
/// Several threads may plan at once, and others may train meanwhile: only the calling thread's
/// regions and bytes are traced. Times are measured, so they are those of a busy machine then.
REPRISE_API MemoryPlan plan(const std::function<void()>& step,
                            c10::Device device,
                            const PlanOptions& options);

/// Traces a step that runs for its results and is no function: gradients, random state and buffers
/// stay as the step leaves them. All its regions recompute in full. From its construction to
/// plan(), which is called when backward is over, everything on one thread. Does not hold a budget.
/// On a GPU, let a step run before: the first one allocates workspaces and loads kernels.
class REPRISE_API StepRecording {
 public:
  explicit StepRecording(c10::Device device);
  ~StepRecording();  ///< without plan(): the step is forgotten
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;

  MemoryPlan plan(const PlanOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Applies the plan on this thread while the guard lives: around the forward of one step that has
/// the planned regions, in the same order and with the same names. Only outermost regions are
/// planned; a region inside another one runs with its own options.
///
/// A step that differs from the plan is an error: other regions, a region called with tensors of
/// other shapes or types, one in which autograd saves another number of tensors or, if it is
/// recomputed, tensors of other shapes. Where the plan keeps results, another number of operators
/// is an error too. (Decisions without a signature are matched by name alone.) What a step does
/// outside of its regions is compared by its bytes: see finish(). A step that is captured
/// (ops/step_graph.h) makes its guard inside the capture.
class REPRISE_API PlanGuard {
 public:
  explicit PlanGuard(const MemoryPlan& plan);
  ~PlanGuard();
  PlanGuard(const PlanGuard&) = delete;
  PlanGuard& operator=(const PlanGuard&) = delete;

  /// Call when the step's backward is over (or its forward, if the guard covers no more). Throws if
  /// it ran fewer regions than planned, or if the thread's activations exceeded the plan's budget
  /// by more than allocators round. The bytes are those from the guard's construction to the last
  /// node of backward. They are not compared if the plan has no trace (MemoryPlan::of), or if the
  /// step is captured.
  void finish() const;
  /// Most activation bytes so far; 0 if they are not measured.
  int64_t peak_bytes() const;

 private:
  class InForce;
  std::unique_ptr<InForce> in_force_;
};

}  // namespace reprise
