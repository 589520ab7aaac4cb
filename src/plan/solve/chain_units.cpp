// Units of one block from its kind's options, and outer regions over several blocks.
#include "plan/solve/chain_units.h"

#include "plan/solve/predict.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <tuple>

namespace reprise::planning {
namespace {

int64_t worst(const std::vector<Moment>& moments) {
  int64_t bytes = 0;
  for (const auto& moment : moments) {
    bytes = std::max(bytes, moment.total());
  }
  return bytes;
}

auto numbers(const ChainUnit& unit) {
  return std::make_tuple(unit.blocks, unit.ns, unit.moved_bytes, unit.held_bytes, unit.need_bytes);
}

/// Removes units that another one over the same blocks beats or equals in every number. `units` are
/// sorted by numbers(), so time need not be compared.
std::vector<ChainUnit> pruned(const std::vector<ChainUnit>& units) {
  std::vector<ChainUnit> kept;
  for (const auto& unit : units) {
    const bool is_beaten = std::any_of(kept.begin(), kept.end(), [&](const ChainUnit& other) {
      return other.blocks == unit.blocks && other.held_bytes <= unit.held_bytes &&
             other.need_bytes <= unit.need_bytes && other.moved_bytes <= unit.moved_bytes;
    });
    if (!is_beaten) {
      kept.push_back(unit);
    }
  }
  return kept;
}

size_t longest_segment(const ChainCosts& costs, const SolverOptions& solver, size_t first_block) {
  const size_t following = costs.blocks.size() - first_block - 1;
  const size_t joinable = costs.joinable.empty() ? following : costs.joinable[first_block];
  return std::min(solver.longest_segment, std::min(following, joinable) + 1);
}

size_t next_length(size_t blocks, const SolverLimits& limits) {
  constexpr size_t kPerDoubling = 4;
  return blocks + (blocks < limits.segments
                       ? 1
                       : std::max<size_t>(std::bit_floor(blocks) / kPerDoubling, 1));
}

/// The same if moved bytes only break ties, which the order of the units does.
std::vector<ChainUnit> pruned_without_moved(const std::vector<ChainUnit>& units) {
  std::vector<ChainUnit> kept;
  std::map<int64_t, int64_t> least_need;  // by held bytes, decreasing, over the same blocks
  for (const auto& unit : units) {
    if (!kept.empty() && kept.back().blocks != unit.blocks) {
      least_need.clear();
    }
    auto after = least_need.upper_bound(unit.held_bytes);
    if (after != least_need.begin() && std::prev(after)->second <= unit.need_bytes) {
      continue;
    }
    after = least_need.lower_bound(unit.held_bytes);
    while (after != least_need.end() && after->second >= unit.need_bytes) {
      after = least_need.erase(after);
    }
    least_need.emplace_hint(after, unit.held_bytes, unit.need_bytes);
    kept.push_back(unit);
  }
  return kept;
}

void add_segments(const ChainCosts& costs,
                  const std::vector<int64_t>& gradients,
                  const SolverOptions& solver,
                  size_t first_block,
                  std::vector<ChainUnit>& units) {
  const size_t longest = longest_segment(costs, solver, first_block);
  const auto& first = costs.block(first_block);
  for (size_t blocks = 2; blocks <= longest; blocks = next_length(blocks, solver.limits)) {
    for (Inside inside : {Inside::Plain, Inside::Regions}) {
      ChainUnit unit;
      unit.blocks = static_cast<uint32_t>(blocks);
      unit.inside = inside;
      unit.need_bytes = worst(segment_moments(costs, gradients, first_block, blocks, inside));
      unit.held_bytes = first.input_bytes;
      unit.ns = segment_ns(costs, first_block, blocks, inside);
      units.push_back(unit);
      if (solver.allow_offload && first.can_offload_input) {
        unit.offloads_input = true;
        unit.held_bytes = 0;
        unit.moved_bytes = costs.link.in_pages(first.input_bytes);
        unit.ns += stall_ns(costs, first_block + blocks - 1, unit.moved_bytes);
        units.push_back(unit);
      }
    }
  }
}

}  // namespace

std::vector<std::vector<ChainUnit>> chain_units(const ChainCosts& costs,
                                                const std::vector<BlockOptions>& options,
                                                const SolverOptions& solver) {
  const auto gradients = gradients_from(costs);
  std::vector<std::vector<ChainUnit>> result(costs.blocks.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const auto& of_kind = options[costs.blocks[i]].options;
    for (size_t k = 0; k < of_kind.size(); ++k) {
      ChainUnit unit;
      unit.option = static_cast<uint32_t>(k);
      unit.offloads_input = of_kind[k].offloads_input;
      unit.need_bytes = worst(block_moments(i, of_kind[k], gradients[i]));
      unit.held_bytes = of_kind[k].held_bytes;
      unit.moved_bytes = costs.link.in_pages(of_kind[k].moved_bytes);
      unit.ns = of_kind[k].extra_ns + stall_ns(costs, i, unit.moved_bytes);
      result[i].push_back(unit);
    }
    add_segments(costs, gradients, solver, i, result[i]);
    std::stable_sort(result[i].begin(), result[i].end(), [](const auto& a, const auto& b) {
      return numbers(a) < numbers(b);
    });
    result[i] = pruned(result[i]);
    for (size_t k = 0; k < result[i].size(); ++k) {
      result[i][k].id = static_cast<uint32_t>(k);
    }
  }
  return result;
}

std::vector<ChainUnit> usable(const std::vector<ChainUnit>& units,
                              int64_t moved_bytes,
                              bool has_host_limit) {
  std::vector<ChainUnit> result;
  std::copy_if(units.begin(), units.end(), std::back_inserter(result), [&](const ChainUnit& unit) {
    return unit.moved_bytes <= moved_bytes;
  });
  return has_host_limit ? result : pruned_without_moved(result);
}

UnitPlan unit_plan(const ChainCosts& costs,
                   const std::vector<BlockOptions>& options,
                   size_t first_block,
                   const ChainUnit& unit) {
  UnitPlan plan;
  plan.first_block = first_block;
  plan.blocks = unit.blocks;
  plan.is_region = true;
  plan.inside = unit.inside;
  plan.offloads_input = unit.offloads_input;
  plan.held_bytes = unit.held_bytes;
  plan.moved_bytes = unit.moved_bytes;
  plan.stall_ns = stall_ns(costs, first_block + unit.blocks - 1, unit.moved_bytes);
  plan.extra_ns = unit.ns - plan.stall_ns;
  if (unit.blocks == 1) {
    const auto& option = options[costs.blocks[first_block]].options[unit.option];
    plan.is_region = option.is_region;
    plan.choices = option.choices;
  }
  return plan;
}

}  // namespace reprise::planning
