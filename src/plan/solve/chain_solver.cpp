// One search over the chain for each reserve of bytes in flight, merged into one curve.
#include "plan/solve/chain_solver.h"

#include "plan/solve/predict.h"
#include "plan/solve/rest_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace reprise::planning {

/// Note [A reserve for bytes in flight]
/// Offloaded bytes stay on the device a little longer, during the next block's forward, and return
/// a little earlier, during the next block's backward. Which block that is depends on the plan. So
/// the largest unit's offloaded bytes are reserved for the whole step, and the chain is searched
/// once for each size of that reserve, with the units that fit it.
ChainSolver::ChainSolver(ChainCosts costs, const SolverOptions& options)
    : costs_((validate(costs), std::move(costs))), options_(options) {
  if (options_.longest_segment == 0 || options_.host_limit.value_or(0) < 0) {
    throw std::invalid_argument(
        "[plan] expected segments of at least one block and a host limit of at least 0 bytes");
  }
  const auto moved = moved_levels(costs_, options_);
  for (const auto& kind : costs_.kinds) {
    kinds_.push_back(block_options(kind, options_, moved));
  }
  units_ = chain_units(costs_, kinds_, options_);
  const auto levels = flight_levels(moved);
  for (int64_t level : levels) {
    search(level, Host::Ignored);
  }
  const bool exceeds_host =
      options_.host_limit &&
      std::any_of(curve_.begin(), curve_.end(), [this](const CurvePoint& point) {
        return point.host_bytes > *options_.host_limit;
      });
  if (exceeds_host) {
    for (int64_t level : levels) {
      if (level > 0) {  // plans that move nothing have been found already
        search(level, Host::Shared);
        search(level, Host::Counted);
      }
    }
  }
  unmoved_.clear();
  keep_best();
  add_up_slack();
}

std::vector<int64_t> ChainSolver::flight_levels(const std::vector<int64_t>& moved) {
  std::set<int64_t> all{0};
  for (const auto& units : units_) {
    for (const auto& unit : units) {
      all.insert(unit.moved_bytes);
    }
  }
  if (all.size() <= options_.limits.flight_levels) {
    return {all.begin(), all.end()};
  }
  std::set<int64_t> levels{0};
  for (const auto& kind : costs_.kinds) {
    if (all.contains(costs_.link.in_pages(kind.input_bytes))) {
      levels.insert(costs_.link.in_pages(kind.input_bytes));  // where the least budgets are
    }
  }
  for (int64_t level : moved) {
    levels.insert(*std::prev(all.upper_bound(level)));
  }
  int64_t widest = 0;
  for (auto level = std::next(levels.begin()); level != levels.end(); ++level) {
    widest = std::max(widest, *level - *std::prev(level));
  }
  slack_.bytes += widest;
  return {levels.begin(), levels.end()};
}

/// Note [Two ways to respect the host limit]
/// Counting host bytes is exact as long as there are few distinct sums, and coarse beyond that. In
/// a long chain of similar blocks it hardly matters which of them offload, so giving a share to
/// each of the first blocks, as many as the limit allows, comes close. A share is as large as the
/// reserve. The blocks after them move nothing, which the search without a reserve has solved.
void ChainSolver::search(int64_t flight_bytes, Host host) {
  RestSearch search;
  search.points = options_.limits.points;
  if (host == Host::Counted) {
    search.points = options_.limits.host_points;
    search.host_limit = options_.host_limit;
    search.host_levels = options_.limits.host_levels;
  }
  const size_t blocks = units_.size();
  Steps steps(blocks);
  std::vector<Rest> rests(blocks + 1);
  rests[blocks] = {{costs_.head.peak_bytes + costs_.head.gradient_bytes, 0, 0, 0, 0, 0}};
  Slack slack;
  size_t end = blocks;
  if (host == Host::Shared) {
    end = take_up_unmoved(flight_bytes, steps, rests);
    slack.bytes = unmoved_thinned_by_[end];
  }
  const bool is_first = searches_.empty();  // moves nothing; later searches reuse its rests
  if (is_first) {
    unmoved_thinned_by_.resize(blocks + 1);
  }
  for (size_t i = end; i-- > 0;) {
    int64_t moved = flight_bytes;
    if (host == Host::Shared) {
      const int64_t earlier = static_cast<int64_t>(i) * flight_bytes;
      moved = std::clamp<int64_t>(*options_.host_limit - earlier, 0, flight_bytes);
    }
    auto result = extend(usable(units_[i], moved, host == Host::Counted), i, rests, search);
    slack.bytes += result.thinned_by;
    slack.host_bytes += result.host_thinned_by;
    for (const auto& point : result.rest) {
      steps[i].push_back({point.unit, point.next});
    }
    rests[i] = std::move(result.rest);
    if (is_first) {
      unmoved_thinned_by_[i] = slack.bytes;
    } else if (i + options_.longest_segment < blocks) {
      rests[i + options_.longest_segment] = {};  // out of reach of all units from here on
    }
  }
  search_slack_.bytes = std::max(search_slack_.bytes, slack.bytes);
  search_slack_.host_bytes = std::max(search_slack_.host_bytes, slack.host_bytes);
  for (size_t p = 0; p < rests[0].size(); ++p) {
    const auto& point = rests[0][p];
    curve_.push_back({point.peak + flight_bytes + costs_.base_bytes, point.ns, point.host});
    held_.push_back(point.held);
    origins_.push_back({searches_.size(), p});
  }
  searches_.push_back(std::move(steps));
  if (is_first) {
    unmoved_ = std::move(rests);
  }
}

size_t ChainSolver::take_up_unmoved(int64_t share, Steps& steps, std::vector<Rest>& rests) const {
  const size_t blocks = units_.size();
  const int64_t limit = *options_.host_limit;
  const auto shares = static_cast<size_t>(limit / share + (limit % share > 0 ? 1 : 0));
  const size_t end = std::min(blocks, shares);
  const size_t reached = std::min(blocks, end + options_.longest_segment - 1);
  for (size_t i = end; i <= reached; ++i) {
    rests[i] = unmoved_[i];
  }
  for (size_t i = end; i < blocks; ++i) {
    steps[i] = searches_.front()[i];
  }
  return end;
}

void ChainSolver::keep_best() {
  std::vector<size_t> order(curve_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto quality = [this](size_t i) {
    return std::make_tuple(curve_[i].extra_ns, curve_[i].host_bytes, held_[i]);
  };
  std::stable_sort(order.begin(), order.end(), [this, &quality](size_t a, size_t b) {
    return std::make_tuple(curve_[a].peak_bytes, quality(a)) <
           std::make_tuple(curve_[b].peak_bytes, quality(b));
  });
  std::vector<size_t> kept;
  for (size_t i : order) {
    const bool fits = !options_.host_limit || curve_[i].host_bytes <= *options_.host_limit;
    if (fits && (kept.empty() || quality(i) < quality(kept.back()))) {
      kept.push_back(i);
    }
  }
  std::vector<CurvePoint> curve;
  std::vector<Origin> origins;
  for (size_t i : kept) {
    curve.push_back(curve_[i]);
    origins.push_back(origins_[i]);
  }
  curve_ = std::move(curve);
  origins_ = std::move(origins);
  held_.clear();
}

void ChainSolver::add_up_slack() {
  slack_.bytes += search_slack_.bytes;
  slack_.host_bytes += search_slack_.host_bytes;
  int64_t at_one_block = 0, reserve = 0;
  for (size_t kind : costs_.blocks) {
    const int64_t held = kinds_[kind].held_thinned_by, surplus = kinds_[kind].surplus_thinned_by;
    const int64_t moved = held > 0 ? held + costs_.link.page_bytes - 1 : 0;
    slack_.bytes += held;
    slack_.host_bytes += moved;
    // A forward counts what is held and moved, or the surplus; a backward counts the surplus.
    at_one_block = std::max({at_one_block, 2 * held, surplus});
    reserve = std::max(reserve, moved);
    if (held > 0 && costs_.link.out_bytes_per_second > 0 && costs_.link.in_bytes_per_second > 0) {
      const double seconds = static_cast<double>(moved) / costs_.link.out_bytes_per_second +
                             static_cast<double>(moved) / costs_.link.in_bytes_per_second;
      slack_.ns += static_cast<int64_t>(std::ceil(seconds * 1e9)) + 2;  // two copies round up
    }
  }
  slack_.bytes += at_one_block + reserve;
}

std::vector<UnitPlan> ChainSolver::units_at(size_t on_curve) const {
  const Origin& origin = origins_[on_curve];
  std::vector<UnitPlan> units;
  size_t point = origin.point;
  for (size_t i = 0; i < units_.size();) {
    const Step& step = searches_[origin.search][i][point];
    const ChainUnit& unit = units_[i][step.unit];
    units.push_back(unit_plan(costs_, kinds_, i, unit));
    point = step.next;
    i += unit.blocks;
  }
  return units;
}

std::optional<ChainPlan> ChainSolver::plan_for(int64_t budget_bytes) const {
  const auto after = std::upper_bound(
      curve_.begin(), curve_.end(), budget_bytes, [](int64_t budget, const CurvePoint& point) {
        return budget < point.peak_bytes;
      });
  if (after == curve_.begin()) {
    return std::nullopt;
  }
  const auto& chosen = *std::prev(after);
  ChainPlan plan;
  plan.units = units_at(static_cast<size_t>(std::prev(after) - curve_.begin()));
  plan.prediction = predict(costs_, plan.units);
  plan.spare_bytes = budget_bytes - plan.prediction.peak_bytes;
  const auto faster = std::find_if(after, curve_.end(), [&chosen](const CurvePoint& next) {
    return next.extra_ns < chosen.extra_ns;
  });
  if (faster != curve_.end()) {
    plan.next_faster = *faster;
  }
  return plan;
}

}  // namespace reprise::planning
