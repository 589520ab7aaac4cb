// Moments of units, and their sum over the step.
#include "plan/solve/predict.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

namespace reprise::planning {
namespace {

Moment moment(Phase phase, size_t block, int64_t working, int64_t gradients) {
  Moment result;
  result.phase = phase;
  result.block = block;
  result.working_bytes = working;
  result.gradient_bytes = gradients;
  return result;
}

/// The moments of backward in an outer region: its recompute first, then each block's backward. A
/// block's moment is the larger of the two.
std::vector<Moment> segment_backward(const ChainCosts& costs,
                                     const std::vector<int64_t>& gradients,
                                     size_t first_block,
                                     size_t blocks,
                                     Inside inside) {
  const size_t end = first_block + blocks;
  const bool is_plain = inside == Inside::Plain;
  // The outer region holds the first input, whether or not plain blocks save it.
  int64_t inside_bytes = is_plain ? costs.block(first_block).input_bytes : 0;
  std::vector<Moment> moments;
  for (size_t i = first_block; i < end; ++i) {
    const auto& block = costs.block(i);
    // If the last block is a region, the outer recompute stops before running it.
    const int64_t replay = is_plain      ? block.plain_forward_bytes
                           : i + 1 < end ? block.region_forward_bytes
                                         : 0;
    const int64_t backward = is_plain ? block.plain_backward_bytes : block.region_backward_bytes;
    const auto in_replay = moment(Phase::Backward, i, inside_bytes + replay, gradients[end]);
    const auto in_backward = moment(Phase::Backward, i, inside_bytes + backward, gradients[i]);
    moments.push_back(in_replay.total() > in_backward.total() ? in_replay : in_backward);
    inside_bytes += is_plain ? block.plain_bytes : block.input_bytes;
  }
  return moments;
}

std::vector<Moment> unit_moments(const ChainCosts& costs,
                                 const std::vector<int64_t>& gradients,
                                 const UnitPlan& unit) {
  if (unit.blocks > 1) {
    return segment_moments(costs, gradients, unit.first_block, unit.blocks, unit.inside);
  }
  const auto& block = costs.block(unit.first_block);
  const auto option =
      unit.is_region ? price(block, unit.choices, unit.offloads_input) : price_plain(block);
  return block_moments(unit.first_block, option, gradients[unit.first_block]);
}

void check_covered(const ChainCosts& costs, const std::vector<UnitPlan>& units) {
  size_t next = 0;
  for (const auto& unit : units) {
    if (unit.first_block != next || unit.blocks == 0) {
      break;
    }
    next += unit.blocks;
  }
  if (next != costs.blocks.size()) {
    throw std::invalid_argument(
        "[plan] expected units that cover the blocks in order, found a gap "
        "or an overlap at block " +
        std::to_string(next));
  }
}

}  // namespace

std::vector<Moment> block_moments(size_t block, const BlockOption& option, int64_t gradients) {
  return {moment(Phase::Forward, block, option.forward_bytes, 0),
          moment(Phase::Backward, block, option.backward_bytes, gradients)};
}

std::vector<Moment> segment_moments(const ChainCosts& costs,
                                    const std::vector<int64_t>& gradients,
                                    size_t first_block,
                                    size_t blocks,
                                    Inside inside) {
  std::vector<Moment> moments;
  for (size_t i = first_block; i < first_block + blocks; ++i) {
    // The first block's input stays; a block's own input is part of its forward bytes.
    const int64_t input = i == first_block ? 0 : costs.block(first_block).input_bytes;
    moments.push_back(moment(Phase::Forward, i, input + costs.block(i).region_forward_bytes, 0));
  }
  const auto backward = segment_backward(costs, gradients, first_block, blocks, inside);
  moments.insert(moments.end(), backward.rbegin(), backward.rend());
  return moments;
}

int64_t segment_ns(const ChainCosts& costs, size_t first_block, size_t blocks, Inside inside) {
  int64_t ns = costs.block(first_block).region_ns;
  const size_t last = first_block + blocks - 1;
  for (size_t i = first_block; i <= last; ++i) {
    const auto& block = costs.block(i);
    ns += i < last ? block.forward_ns : 0;
    if (inside == Inside::Regions) {
      ns += full_replay_ns(block) + block.region_ns;
    } else if (i == last) {
      ns += full_replay_ns(block);
    }
  }
  return ns;
}

Prediction predict(const ChainCosts& costs, const std::vector<UnitPlan>& units) {
  check_covered(costs, units);
  const auto gradients = gradients_from(costs);
  Prediction result;
  std::vector<Moment> backward;  // in the order of forward
  int64_t flight = 0;
  for (const auto& unit : units) {
    auto moments = unit_moments(costs, gradients, unit);
    for (auto& each : moments) {
      each.held_bytes = result.held_bytes;
    }
    const auto middle = moments.begin() + static_cast<std::ptrdiff_t>(unit.blocks);
    result.moments.insert(result.moments.end(), moments.begin(), middle);
    backward.insert(backward.end(), moments.rbegin(), std::make_reverse_iterator(middle));
    result.held_bytes += unit.held_bytes;
    result.host_bytes += unit.moved_bytes;
    result.extra_ns += unit.extra_ns + unit.stall_ns;
    flight = std::max(flight, unit.moved_bytes);
  }
  const size_t blocks = costs.blocks.size();
  auto head = moment(Phase::Head, blocks, costs.head.peak_bytes, gradients[blocks]);
  head.held_bytes = result.held_bytes;
  result.moments.push_back(head);
  result.moments.insert(result.moments.end(), backward.rbegin(), backward.rend());
  for (size_t i = 0; i < result.moments.size(); ++i) {
    auto& each = result.moments[i];
    each.base_bytes = costs.base_bytes;
    each.flight_bytes = flight;
    if (each.total() > result.peak_bytes) {
      result.peak_bytes = each.total();
      result.tightest = i;
    }
  }
  return result;
}

}  // namespace reprise::planning
