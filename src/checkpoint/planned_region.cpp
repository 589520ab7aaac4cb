// Which planner is in force on a thread, and what a region may not ask for under a plan.
#include <reprise/detail/planned_region.h>

#include "checkpoint/engine.h"
#include "checkpoint/frame.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <utility>

namespace reprise::detail {

struct RegionPlannerGuard::Entry {
  Entry(RegionPlanner* put_in_force, std::shared_ptr<Entry> before)
      : planner(put_in_force), outer(std::move(before)) {}

  RegionPlanner* const planner;
  const std::shared_ptr<Entry> outer;
  std::atomic<bool> has_ended{false};
};

namespace {

using Entry = RegionPlannerGuard::Entry;

thread_local std::shared_ptr<Entry> last_entry;
// Whose joined regions run on this thread.
thread_local RegionPlanner* planner_of_joined = nullptr;

RegionPlanner* planner_in_force() {
  while (last_entry != nullptr && last_entry->has_ended.load(std::memory_order_acquire)) {
    last_entry = std::shared_ptr<Entry>(last_entry->outer);
  }
  return last_entry == nullptr ? nullptr : last_entry->planner;
}

void check_plannable(const CheckpointOptions& asked) {
  TORCH_CHECK(!asked.use_reentrant,
              "[plan] region \"",
              asked.name,
              "\" asks for use_reentrant, which has no decisions per operator, so a plan cannot "
              "cover it. Use the default variant.");
  TORCH_CHECK(asked.policy == nullptr,
              "[plan] region \"",
              asked.name,
              "\" has the policy ",
              asked.policy->describe(),
              ", which the plan would override. Leave it to the plan.");
  TORCH_CHECK(
      !asked.forward_scope && !asked.recompute_scope,
      "[plan] region \"",
      asked.name,
      "\" has a forward_scope or recompute_scope, which a plan that runs the region plainly "
      "or joins it with others cannot keep. Put the guard inside the callable.");
  TORCH_CHECK(!asked.offload_inputs,
              "[plan] region \"",
              asked.name,
              "\" asks for offload_inputs, which the plan decides about. Leave it off.");
  TORCH_CHECK(
      !asked.allow_lossy,
      "[plan] region \"",
      asked.name,
      "\" asks for allow_lossy, which the plan decides about. Leave it off and allow it when "
      "you plan.");
}

std::optional<CheckpointOptions> ask_planner(RegionPlanner& planner,
                                             const CheckpointOptions& asked,
                                             const std::vector<at::Tensor>& inputs) {
  check_plannable(asked);
  return planner.plan(asked, inputs);
}

std::unique_ptr<SaveCounter> count_saves(bool is_region) {
  return std::make_unique<SaveCounter>(is_region ? SaveCounter::Scope::Region
                                                 : SaveCounter::Scope::Plain);
}

}  // namespace

RegionPlanner::RegionPlanner() = default;
RegionPlanner::~RegionPlanner() = default;

bool has_region_planner() {
  return planner_in_force() != nullptr;
}

RegionPlannerGuard::RegionPlannerGuard(RegionPlanner* planner)
    : entry_(std::make_shared<Entry>(planner, last_entry)) {
  last_entry = entry_;
}

RegionPlannerGuard::~RegionPlannerGuard() {
  end();
}

void RegionPlannerGuard::end() {
  entry_->has_ended.store(true, std::memory_order_release);
  planner_in_force();  // drops the entry, if this is its thread
}

std::optional<JoinedRegions> ask_to_join(const std::vector<const CheckpointOptions*>& chain) {
  for (const auto* asked : chain) {
    check_plannable(*asked);
  }
  return planner_in_force()->join(chain);
}

PlannedRegion::PlannedRegion(const CheckpointOptions& asked, const std::vector<at::Tensor>& inputs)
    : planner_(*planner_in_force()),
      options_(ask_planner(planner_, asked, inputs)),
      saves_(count_saves(options_.has_value())) {}

PlannedRegion::~PlannedRegion() = default;

void PlannedRegion::complete() {
  planner_.ended(saves_->count());
}

// The members are in order: the planner is asked for before none is in force.
JoinedScope::JoinedScope() : previous_(std::exchange(planner_of_joined, planner_in_force())) {}

JoinedScope::~JoinedScope() {
  planner_of_joined = previous_;
}

JoinedPart::JoinedPart(size_t index, Runs runs, const std::vector<at::Tensor>& inputs)
    : planner_(Frame::is_recomputing_any() ? nullptr : planner_of_joined) {
  if (planner_ != nullptr) {
    planner_->joined_begins(index, inputs);
    saves_ = count_saves(runs == Runs::AsRegion);
  }
}

JoinedPart::~JoinedPart() = default;

void JoinedPart::complete() {
  if (planner_ != nullptr) {
    planner_->ended(saves_->count());
  }
}

}  // namespace reprise::detail
