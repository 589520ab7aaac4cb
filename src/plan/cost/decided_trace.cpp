#include "plan/cost/decided_trace.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace reprise::planning {
namespace {

std::vector<Decision> decided_ops(const TracedRegion& region, const RegionDecision& decision) {
  if (decision.ops.empty()) {
    return {};
  }
  std::vector<Decision> decided(region.ops.size(), Decision::Recompute);
  std::map<std::tuple<std::string_view, std::string_view, size_t>, size_t> indices;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    indices[{region.ops[i].name, region.ops[i].overload, region.ops[i].call_index}] = i;
  }
  for (const auto& op : decision.ops) {
    const auto found = indices.find({op.name, op.overload, op.call_index});
    TORCH_CHECK(found != indices.end(),
                "[plan] no such operator call in the trace of region \"",
                region.name,
                "\": ",
                op.name,
                " ",
                op.overload,
                " #",
                op.call_index);
    if (region.ops[found->second].can_keep) {
      decided[found->second] = op.decision;
    }
  }
  return decided;
}

}  // namespace

std::vector<TracedDecision> traced_decisions(const StepTrace& trace,
                                             const std::vector<RegionDecision>& decisions) {
  const size_t count = trace.regions.size();
  TORCH_CHECK(decisions.size() == count,
              "[plan] ",
              decisions.size(),
              " decisions for the ",
              count,
              " regions of the trace: expected one per region.");
  std::vector<TracedDecision> regions;
  for (size_t i = 0; i < count; ++i) {
    const RegionDecision& decision = decisions[i];
    regions.push_back({.is_plain = decision.is_plain,
                       .offload_inputs = decision.offload_inputs,
                       .allow_lossy = decision.allow_lossy,
                       .joined = decision.joined,
                       .ops = decided_ops(trace.regions[i], decision)});
  }
  return regions;
}

std::vector<RegionDecision> decisions_of(const StepTrace& trace,
                                         const std::vector<TracedDecision>& regions) {
  TORCH_INTERNAL_ASSERT(regions.size() == trace.regions.size());
  std::vector<RegionDecision> decisions;
  for (size_t i = 0; i < regions.size(); ++i) {
    const TracedDecision& region = regions[i];
    RegionDecision& decision = decisions.emplace_back();
    decision.name = trace.regions[i].name;
    decision.is_plain = region.is_plain;
    decision.offload_inputs = region.offload_inputs;
    decision.joined = region.joined;
    decision.allow_lossy = region.allow_lossy;
    for (size_t k = 0; k < region.ops.size(); ++k) {
      if (region.ops[k] != Decision::Recompute) {
        const TracedOp& op = trace.regions[i].ops[k];
        decision.ops.push_back({.name = op.name,
                                .overload = op.overload,
                                .call_index = op.call_index,
                                .decision = region.ops[k]});
      }
    }
  }
  return decisions;
}

DecidedTrace::DecidedTrace(const StepTrace& trace, const std::vector<TracedDecision>& regions)
    : trace_(trace), regions_(regions), offloads_(regions.size()) {
  if (has_offloads()) {
    schedule_offloads();
  }
}

bool DecidedTrace::has_offloads() const {
  return std::any_of(regions_.begin(), regions_.end(), [](const TracedDecision& region) {
    return region.offload_inputs ||
           std::find(region.ops.begin(), region.ops.end(), Decision::Offload) != region.ops.end();
  });
}

bool DecidedTrace::can_move(const TracedStorage& storage) const {
  const bool is_output =
      storage.died == kNone || storage.died > trace_.regions[storage.region].forward_end;
  // If the storage is written later, a copy is kept, which nothing else holds.
  return storage.host_bytes > 0 && (!is_output || storage.written != kNone) &&
         trace_.regions[storage.region].is_recomputed;
}

Fate DecidedTrace::fate(const TracedStorage& storage) const {
  if (is_plain(storage.region)) {
    return Fate::Plain;
  }
  switch (decision(storage.region, storage.op)) {
    case Decision::Recompute:
      return Fate::Full;
    case Decision::Keep:
      return Fate::Kept;
    case Decision::Offload:
      return can_move(storage) ? Fate::Offloaded : Fate::Kept;
    case Decision::Compress:
      break;
  }
  const bool is_allowed = storage.compressed.is_exact || regions_[storage.region].allow_lossy;
  return storage.compressed.bytes > 0 && is_allowed ? Fate::Compressed : Fate::Kept;
}

bool DecidedTrace::frees(size_t region, const TracedInput& input) const {
  if (!regions_[region].offload_inputs || input.host_bytes == 0 || !input.is_private) {
    return false;
  }
  if (input.storage == kNone) {
    return true;
  }
  // The region that made it may hold it too: through autograd if it is plain, through a policy
  // otherwise.
  const auto& storage = trace_.storages[input.storage];
  const Fate made_as = fate(storage);
  const bool is_shared = made_as == Fate::Kept && storage.written == kNone;
  return !is_shared && !(made_as == Fate::Plain && storage.is_saved);
}

std::vector<int64_t> DecidedTrace::moved_bytes() const {
  std::vector<int64_t> bytes(trace_.regions.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (regions_[i].offload_inputs && trace_.regions[i].is_recomputed) {
      for (const auto& input : trace_.regions[i].inputs) {
        bytes[i] += input.host_bytes;
      }
    }
  }
  for (const auto& storage : trace_.storages) {
    if (fate(storage) == Fate::Offloaded) {
      bytes[storage.region] += storage.host_bytes;
    }
  }
  return bytes;
}

void DecidedTrace::schedule_offloads() {
  const size_t count = trace_.regions.size();
  std::vector<size_t> begins(count, kNone);
  for (size_t i = 0; i < trace_.intervals.size(); ++i) {
    const auto& interval = trace_.intervals[i];
    if (interval.phase == StepPhase::Recompute || interval.phase == StepPhase::Backward) {
      const bool is_replay = interval.phase == StepPhase::Recompute;
      begins[interval.region] = std::min(begins[interval.region], i);
      auto& replayed = offloads_[interval.region].replayed;
      replayed = is_replay || replayed == kNone ? i : replayed;
    }
  }
  std::vector<size_t> senders;
  const auto moved = moved_bytes();
  for (size_t i = 0; i < count; ++i) {
    if (moved[i] > 0) {
      const int64_t page = trace_.host.page_bytes;
      host_bytes_ += (moved[i] + page - 1) / page * page;
      offloads_[i].is_sent = true;
      senders.push_back(i);
    }
  }
  for (size_t k = 0; k + 1 < senders.size(); ++k) {
    auto& times = offloads_[senders[k]];
    times.leaves = trace_.regions[senders[k + 1]].forward_end;
    times.returns = begins[senders[std::min(k + trace_.host.prefetch, senders.size() - 1)]];
  }
}

}  // namespace reprise::planning
