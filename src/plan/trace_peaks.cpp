#include "plan/trace_peaks.h"

#include "plan/joined_peaks.h"
#include "plan/joined_regions.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace reprise::planning {
namespace {

enum class Fate : uint8_t { Full, Plain, Kept };

/// Bytes that come and go with intervals, summed up in the end.
class Changes {
 public:
  explicit Changes(size_t intervals) : steps_(intervals + 1) {}

  /// `bytes` more from interval `first` to `last`, both included; kNone: to the end, or, as a
  /// begin, not at all.
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

/// Which operators of a region are kept.
std::vector<bool> kept_ops(const TracedRegion& region, const RegionDecision& decision) {
  std::map<std::tuple<std::string, std::string, size_t>, size_t> places;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    places[{region.ops[i].name, region.ops[i].overload, region.ops[i].call_index}] = i;
  }
  std::vector<bool> kept(region.ops.size());
  for (const auto& op : decision.ops) {
    const auto found = places.find({op.name, op.overload, op.call_index});
    TORCH_CHECK(found != places.end() && op.decision == Decision::Keep,
                "[plan] ",
                found == places.end() ? "no such operator call in the trace of region \""
                                      : "only Keep can be predicted; other decision in region \"",
                region.name,
                "\": ",
                op.name,
                " ",
                op.overload,
                " #",
                op.call_index);
    // Views, factories and writes are run again whatever a policy says.
    kept[found->second] = region.ops[found->second].can_keep;
  }
  return kept;
}

void change(Changes& changes, const TracedStorage& storage, Fate fate, size_t released) {
  if (fate == Fate::Full) {
    return;
  }
  const int64_t bytes = storage.bytes;
  changes.add(storage.made, storage.died, -bytes);
  changes.add(storage.remade, storage.used_up, -bytes);
  if (fate == Fate::Plain) {
    // Saved, but not seen again in a recompute: at the latest when the region is over.
    const size_t used_up = storage.remade == kNone ? released : storage.used_up;
    changes.add(
        storage.made, storage.is_saved ? later(storage.died, used_up) : storage.died, bytes);
  } else if (storage.written == kNone) {
    changes.add(storage.made, later(storage.died, released), bytes);
  } else {
    changes.add(storage.made, storage.died, bytes);
    changes.add(storage.written, released, bytes);
    changes.add(storage.rewritten, storage.used_up, bytes);
  }
}

int64_t held_bytes(const StepTrace& trace, size_t region, const RegionDecision& decision) {
  const auto kept = kept_ops(trace.regions[region], decision);
  const size_t end = trace.regions[region].forward_end;
  int64_t bytes = decision.is_plain ? -trace.regions[region].log_bytes : 0;
  for (const auto& storage : trace.storages) {
    if (storage.region != region) {
      continue;
    }
    const bool is_output = storage.died == kNone || storage.died > end;
    const bool is_held = decision.is_plain ? storage.is_saved : kept[storage.op];
    // A returned storage is there anyway, unless what is kept is a copy of it.
    const bool is_copy = !decision.is_plain && storage.written != kNone;
    bytes += is_held && (!is_output || is_copy) ? storage.bytes : 0;
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

StepPeaks predict_peaks(const StepTrace& trace, const std::vector<RegionDecision>& decisions) {
  const size_t count = trace.regions.size();
  TORCH_CHECK(decisions.size() == count,
              "[plan] ",
              decisions.size(),
              " decisions for the ",
              count,
              " regions of the trace: expected one per region.");
  check_joined(decisions);
  const JoinedPeaks joined(trace, decisions);
  std::vector<std::vector<bool>> kept;
  Changes changes(trace.intervals.size());
  for (size_t i = 0; i < count; ++i) {
    kept.push_back(kept_ops(trace.regions[i], decisions[i]));
    if (decisions[i].is_plain && !joined.covers(i)) {
      const TracedRegion& region = trace.regions[i];
      changes.add(region.forward_end, region.released, -region.log_bytes);
    }
  }
  for (const auto& change : joined.changes()) {
    changes.add(change.first, change.last, change.bytes);
  }
  for (const auto& storage : trace.storages) {
    if (joined.covers(storage.region)) {
      continue;
    }
    const Fate fate = decisions[storage.region].is_plain ? Fate::Plain
                      : kept[storage.region][storage.op] ? Fate::Kept
                                                         : Fate::Full;
    change(changes, storage, fate, trace.regions[storage.region].released);
  }
  const auto levels = changes.levels();
  StepPeaks peaks;
  peaks.forward.resize(count);
  peaks.recompute = joined.recompute_peaks(levels);
  peaks.backward.resize(count);
  for (size_t i = 0; i < trace.intervals.size(); ++i) {
    const auto& interval = trace.intervals[i];
    const bool is_skipped = interval.phase == StepPhase::Recompute &&
                            (decisions[interval.region].is_plain ||
                             (interval.op != kNone && kept[interval.region][interval.op]));
    if (!is_skipped) {
      auto& peak = point_of(peaks, interval);
      peak = std::max(peak, interval.peak_bytes + levels[i]);
    }
  }
  return peaks;
}

RegionPeaks region_peaks(const StepTrace& trace, size_t region, const RegionDecision& decision) {
  std::vector<RegionDecision> decisions(trace.regions.size());
  decisions[region] = decision;
  const auto step = predict_peaks(trace, decisions);
  const auto& traced = trace.regions[region];
  RegionPeaks peaks;
  peaks.held = held_bytes(trace, region, decision);
  peaks.forward = step.forward[region] - traced.entry_bytes;
  peaks.backward = std::max(step.recompute[region], step.backward[region]) - traced.entry_bytes;
  return peaks;
}

}  // namespace reprise::planning
