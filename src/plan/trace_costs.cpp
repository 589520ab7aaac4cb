#include "plan/trace_costs.h"

#include "plan/trace_peaks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace reprise::planning {

namespace {

int64_t nanoseconds(double ms) {
  constexpr double kNanoseconds = 1e6;
  return std::llround(std::max(ms, 0.0) * kNanoseconds);
}

// Keeping what a recompute does not run anyway gains nothing.
bool is_worth_keeping(const TracedOp& op) {
  return op.can_keep && op.is_rerun && op.bytes > 0 && op.call_index != kNone;
}

RegionDecision keeping(const TracedRegion& region, const std::vector<size_t>& ops) {
  RegionDecision decision{.name = region.name};
  for (const size_t i : ops) {
    const TracedOp& op = region.ops[i];
    decision.ops.push_back({.name = op.name, .overload = op.overload, .call_index = op.call_index});
  }
  return decision;
}

std::vector<size_t> all_worth_keeping(const TracedRegion& region) {
  std::vector<size_t> ops;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    if (is_worth_keeping(region.ops[i])) {
      ops.push_back(i);
    }
  }
  return ops;
}

/// What each region holds whatever is decided: how the bytes alive at the regions' beginnings grow.
std::vector<int64_t> inputs_of(const StepTrace& trace) {
  std::vector<int64_t> inputs;
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    const TracedRegion& region = trace.regions[i];
    inputs.push_back(
        i == 0 ? region.input_bytes
               : std::max<int64_t>(region.entry_bytes - trace.regions[i - 1].entry_bytes, 0));
  }
  return inputs;
}

BlockCosts block_costs(const StepTrace& trace, size_t index, int64_t input) {
  const TracedRegion& region = trace.regions[index];
  const auto peaks = [&](const RegionDecision& decision) {
    return region_peaks(trace, index, decision);
  };
  const auto full = peaks({.name = region.name});
  const auto plain = peaks({.name = region.name, .is_plain = true});
  const auto most = peaks(keeping(region, all_worth_keeping(region)));

  BlockCosts block;
  block.name = region.name;
  block.replay_end = region.rerun_ops;
  double rerun_ms = 0;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    const TracedOp& op = region.ops[i];
    const bool can_keep = is_worth_keeping(op);
    rerun_ms += op.is_rerun ? op.forward_ms : 0;
    block.ops.push_back(
        {.name = op.name,
         // What holding it alone takes: a result that the region returns is there anyway.
         .result_bytes = can_keep ? peaks(keeping(region, {i})).held : op.bytes,
         .forward_ns = nanoseconds(op.forward_ms),
         .needed = op.is_saved && i < region.rerun_ops,
         .can_keep = can_keep});
  }
  block.forward_ns = nanoseconds(region.forward_ms);
  block.backward_ns = nanoseconds(region.backward_ms);
  block.region_ns = nanoseconds(region.recompute_ms - rerun_ms);
  block.input_bytes = input;
  block.plain_bytes = input + plain.held;
  block.plain_forward_bytes = input + plain.forward;
  block.plain_backward_bytes = input + plain.backward;
  block.region_forward_bytes = input + full.forward;
  block.region_backward_bytes = input + std::max(full.backward, most.backward);
  return block;
}

}  // namespace

ChainCosts costs_of(const StepTrace& trace) {
  const auto inputs = inputs_of(trace);
  ChainCosts costs;
  std::map<std::pair<size_t, int64_t>, size_t> kinds;
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    const auto [kind, is_new] =
        kinds.try_emplace({trace.regions[i].kind, inputs[i]}, costs.kinds.size());
    if (is_new) {
      costs.kinds.push_back(block_costs(trace, i, inputs[i]));
    }
    costs.blocks.push_back(kind->second);
  }
  costs.base_bytes = trace.regions.front().entry_bytes - inputs.front();
  int64_t held = costs.base_bytes;
  for (const int64_t input : inputs) {
    held += input;
  }
  costs.head.peak_bytes = std::max<int64_t>(trace.head_bytes - held + trace.head_peak, 0);
  return costs;
}

RegionDecision decision_of(const TracedRegion& region, const std::vector<Choice>& choices) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < choices.size(); ++i) {
    TORCH_INTERNAL_ASSERT(choices[i] == Choice::Keep || choices[i] == Choice::Recompute);
    if (choices[i] == Choice::Keep) {
      kept.push_back(i);
    }
  }
  return keeping(region, kept);
}

}  // namespace reprise::planning
