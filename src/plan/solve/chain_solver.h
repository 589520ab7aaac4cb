// The memory planner's solver: the fastest plan for every budget at once.
//
// The curve of best plans is computed without knowing a budget; a budget then picks from it. So a
// larger budget never predicts more time, and equal input gives equal plans.
#pragma once

#include "plan/solve/block_options.h"
#include "plan/solve/chain_plan.h"
#include "plan/solve/chain_units.h"
#include "plan/solve/rest.h"
#include "plan/solve/solver_options.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::planning {

class REPRISE_API ChainSolver {
 public:
  /// Solves. Throws std::invalid_argument for costs that contradict each other.
  ChainSolver(ChainCosts costs, const SolverOptions& options);

  /// Best plans, from the smallest peak (slowest) to the largest (fastest).
  const std::vector<CurvePoint>& curve() const { return curve_; }

  /// The least budget for which there is a plan.
  int64_t least_bytes() const { return curve_.front().peak_bytes; }

  /// The fastest plan within the budget; none below least_bytes().
  std::optional<ChainPlan> plan_for(int64_t budget_bytes) const;

  /// The units of a plan of the curve: those of plan_for(), without a prediction.
  std::vector<UnitPlan> units_at(size_t point) const;

  /// How far the curve may be from the optimum.
  const Slack& slack() const { return slack_; }

 private:
  struct Step {
    uint32_t unit;
    uint32_t next;
  };
  /// The result of one search over the chain: for each first block and point of its rest, the first
  /// unit and the point of the rest after it.
  using Steps = std::vector<std::vector<Step>>;
  /// The search and the point that a point of the curve comes from.
  struct Origin {
    size_t search;
    size_t point;
  };

  /// How a search respects the host limit.
  enum class Host : uint8_t {
    Ignored,
    Shared,   ///< the first blocks get one share each, the others none
    Counted,  ///< host bytes are a third sum beside peak and time
  };

  std::vector<int64_t> flight_levels(const std::vector<int64_t>& moved);
  void search(int64_t flight_bytes, Host host);
  /// Takes the rests of the first search for the blocks that get no share. Returns the first such
  /// block.
  size_t take_up_unmoved(int64_t share, Steps& steps, std::vector<Rest>& rests) const;
  void keep_best();
  void add_up_slack();

  const ChainCosts costs_;
  const SolverOptions options_;
  std::vector<BlockOptions> kinds_;
  std::vector<std::vector<ChainUnit>> units_;
  std::vector<Steps> searches_;
  std::vector<Rest> unmoved_;  // by first block, with nothing moved: the first search's
  std::vector<int64_t> unmoved_thinned_by_;
  std::vector<CurvePoint> curve_;
  std::vector<int64_t> held_;  // of the curve's points, as the last tie-break
  std::vector<Origin> origins_;
  Slack slack_;
  Slack search_slack_;  // the largest of any search
};

}  // namespace reprise::planning
