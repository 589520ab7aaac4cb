#include "plan/cost/trace_peaks.h"

#include "plan/cost/decided_trace.h"
#include "plan/cost/joined_peaks.h"
#include "plan/cost/joined_regions.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <utility>

namespace reprise::planning {
namespace {

/// Bytes that are added and removed at intervals, summed up in the end.
class Changes {
 public:
  explicit Changes(size_t intervals) : steps_(intervals + 1) {}

  /// `bytes` more from interval `first` to `last`, both included. `first` kNone: never; `last`
  /// kNone: to the end.
  void add(size_t first, size_t last, int64_t bytes) {
    const size_t end = steps_.size() - 1;
    if (first == kNone || first >= end || (last != kNone && last < first)) {
      return;
    }
    steps_[first] += bytes;
    steps_[last == kNone ? end : std::min(last + 1, end)] -= bytes;
  }

  std::vector<int64_t> levels() const {
    std::vector<int64_t> levels;
    levels.reserve(steps_.size());
    int64_t level = 0;
    for (const int64_t step : steps_) {
      levels.push_back(level += step);
    }
    return levels;
  }

 private:
  std::vector<int64_t> steps_;
};

size_t later(size_t a, size_t b) {
  return std::max(a, b);  // kNone is the end of time
}

/// Bytes of something that is made and then offloaded: alive until it leaves, and from its return
/// to `used_up`.
void add_moved(
    Changes& changes, size_t made, size_t used_up, const OffloadTimes& times, int64_t bytes) {
  if (times.leaves == kNone) {
    changes.add(made, used_up, bytes);
  } else {
    changes.add(made, times.leaves, bytes);
    changes.add(times.returns, used_up, bytes);
  }
}

void change(Changes& changes, const DecidedTrace& step, const StepTrace& trace, size_t index) {
  const auto& storage = trace.storages[index];
  const size_t released = trace.regions[storage.region].released;
  const auto& times = step.offload_times(storage.region);
  const int64_t bytes = storage.bytes;
  const Fate fate = step.fate(storage);
  if (fate == Fate::Full) {
    return;
  }
  if (fate == Fate::Compressed) {
    changes.add(storage.made + 1, released, storage.compressed.bytes);
    return;
  }
  changes.add(storage.made, storage.died, -bytes);
  changes.add(storage.remade, storage.used_up, -bytes);
  if (fate == Fate::Plain) {
    // If it is saved but no recompute made it again, it dies with the region at the latest.
    const size_t used_up = storage.remade == kNone ? released : storage.used_up;
    changes.add(
        storage.made, storage.is_saved ? later(storage.died, used_up) : storage.died, bytes);
  } else if (fate == Fate::Offloaded) {
    const size_t used_up =
        storage.remade == kNone ? times.replayed : later(times.replayed, storage.used_up);
    if (storage.written != kNone) {
      changes.add(storage.made, storage.died, bytes);
    }
    add_moved(
        changes, storage.written == kNone ? storage.made : storage.written, used_up, times, bytes);
  } else if (storage.written == kNone) {
    changes.add(storage.made, later(storage.died, released), bytes);
  } else {
    changes.add(storage.made, storage.died, bytes);
    changes.add(storage.written, released, bytes);
    changes.add(storage.rewritten, storage.used_up, bytes);
  }
}

/// An offloaded input is alive until it leaves, and from its return to the end of the recompute, or
/// to its own end if autograd saves it.
void change(Changes& changes, const OffloadTimes& times, const TracedInput& input) {
  changes.add(input.made, input.died, -input.bytes);
  const size_t used_up = input.is_saved ? input.died : std::min(times.replayed, input.died);
  add_moved(changes, input.made, used_up, times, input.bytes);
}

/// Working memory of compression. In forward, it is what compressing takes beyond the operator's
/// own peak; in recompute, the tensor is restored instead of running the operator.
class CompressionWork {
 public:
  CompressionWork(const DecidedTrace& step, const StepTrace& trace) {
    for (const auto& storage : trace.storages) {
      if (step.fate(storage) == Fate::Compressed) {
        auto& op = ops_[{storage.region, storage.op}];
        op.bytes += storage.compressed.bytes;
        op.making = std::max(op.making, storage.compressed.making_bytes);
        op.restoring = std::max(op.restoring, storage.compressed.restoring_bytes);
        op.workspace = trace.regions[storage.region].ops[storage.op].workspace_bytes;
      }
    }
  }

  int64_t in(const TraceInterval& interval) const {
    if (ops_.empty()) {
      return 0;
    }
    const auto found = ops_.find({interval.region, interval.op});
    if (found == ops_.end()) {
      return 0;
    }
    const Work& op = found->second;
    return interval.phase == StepPhase::Forward
               ? std::max<int64_t>(0, op.bytes + op.making - op.workspace)
               : op.restoring - op.workspace;
  }

 private:
  struct Work {
    int64_t bytes = 0, making = 0, restoring = 0, workspace = 0;
  };
  std::map<std::pair<size_t, size_t>, Work> ops_;
};

bool takes_place(const DecidedTrace& step, const TraceInterval& interval) {
  if (interval.phase != StepPhase::Recompute) {
    return true;
  }
  if (step.is_plain(interval.region)) {
    return false;
  }
  const auto decision =
      interval.op == kNone ? Decision::Recompute : step.decision(interval.region, interval.op);
  return decision == Decision::Recompute || decision == Decision::Compress;
}

int64_t held_bytes(const StepTrace& trace, const DecidedTrace& step, size_t region) {
  int64_t bytes = step.is_plain(region) ? -trace.regions[region].log_bytes : 0;
  for (const auto& storage : trace.storages) {
    if (storage.region != region) {
      continue;
    }
    const Fate fate = step.fate(storage);
    const bool is_output =
        storage.died == kNone || storage.died > trace.regions[region].forward_end;
    const bool is_held = fate == Fate::Plain ? storage.is_saved : fate == Fate::Kept;
    // A returned storage is alive anyway, unless a copy of it is kept.
    const bool is_copy = fate == Fate::Kept && storage.written != kNone;
    bytes += fate == Fate::Compressed             ? storage.compressed.bytes
             : is_held && (!is_output || is_copy) ? storage.bytes
                                                  : 0;
  }
  return bytes;
}

int64_t& point_of(StepPeaks& peaks, const TraceInterval& interval) {
  switch (interval.phase) {
    case StepPhase::Forward:
      return peaks.forward[interval.region];
    case StepPhase::Recompute:
      return peaks.recompute[interval.region];
    case StepPhase::Backward:
      return peaks.backward[interval.region];
    case StepPhase::Outside:
      break;
  }
  return interval.region == 0                      ? peaks.before
         : interval.region == peaks.forward.size() ? peaks.head
                                                   : peaks.forward[interval.region - 1];
}

}  // namespace

int64_t StepPeaks::peak() const {
  int64_t most = std::max(before, head);
  for (const auto* points : {&forward, &recompute, &backward}) {
    for (const int64_t bytes : *points) {
      most = std::max(most, bytes);
    }
  }
  return most;
}

StepPeaks predict_peaks(const StepTrace& trace,
                        const std::vector<RegionDecision>& decisions,
                        Counted counted) {
  const auto regions = traced_decisions(trace, decisions);
  check_joined(decisions);
  return predict_peaks(trace, regions, counted);
}

StepPeaks predict_peaks(const StepTrace& trace,
                        const std::vector<TracedDecision>& regions,
                        Counted counted) {
  const size_t count = trace.regions.size();
  const DecidedTrace step(trace, regions);
  const JoinedPeaks joined(trace, regions);
  Changes changes(trace.intervals.size());
  for (size_t i = 0; i < count; ++i) {
    const TracedRegion& region = trace.regions[i];
    if (step.is_plain(i) && !joined.covers(i)) {
      for (const TracedCopy& copy : region.copies) {
        changes.add(copy.made, region.released, -copy.bytes);
      }
    }
    for (const auto& input : region.inputs) {
      if (step.frees(i, input)) {
        change(changes, step.offload_times(i), input);
      }
    }
  }
  for (const auto& change : joined.changes()) {
    changes.add(change.first, change.last, change.bytes);
  }
  for (size_t i = 0; i < trace.storages.size(); ++i) {
    if (!joined.covers(trace.storages[i].region)) {
      change(changes, step, trace, i);
    }
  }
  const CompressionWork work(step, trace);
  const auto levels = changes.levels();
  StepPeaks peaks;
  peaks.forward.resize(count);
  peaks.recompute = joined.recompute_peaks(levels, counted);
  peaks.backward.resize(count);
  peaks.host = step.host_bytes();
  for (size_t i = 0; i < trace.intervals.size(); ++i) {
    const auto& interval = trace.intervals[i];
    if (takes_place(step, interval)) {
      auto& peak = point_of(peaks, interval);
      const int64_t gradients = counted == Counted::WithGradients ? interval.gradient_bytes : 0;
      peak = std::max(peak, interval.peak_bytes + levels[i] + work.in(interval) + gradients);
    }
  }
  return peaks;
}

int64_t region_held(const StepTrace& trace, size_t region, const RegionDecision& decision) {
  std::vector<RegionDecision> decisions(trace.regions.size());
  decisions[region] = decision;
  const auto regions = traced_decisions(trace, decisions);
  return held_bytes(trace, DecidedTrace(trace, regions), region);
}

RegionPeaks region_peaks(const StepTrace& trace, size_t region, const RegionDecision& decision) {
  TORCH_CHECK(
      !decision.offload_inputs &&
          std::none_of(decision.ops.begin(),
                       decision.ops.end(),
                       [](const auto& op) { return op.decision == Decision::Offload; }),
      "[plan] what region \"",
      decision.name,
      "\" offloads leaves the device when another region offloads: ask for the peaks of the "
      "whole step (predict_peaks).");
  std::vector<RegionDecision> decisions(trace.regions.size());
  decisions[region] = decision;
  const auto regions = traced_decisions(trace, decisions);
  const auto step = predict_peaks(trace, regions, Counted::Activations);
  const auto& traced = trace.regions[region];
  RegionPeaks peaks;
  peaks.held = held_bytes(trace, DecidedTrace(trace, regions), region);
  peaks.forward = step.forward[region] - traced.entry_bytes;
  peaks.backward = std::max(step.recompute[region], step.backward[region]) - traced.entry_bytes;
  return peaks;
}

}  // namespace reprise::planning
