#include "plan/cost/joined_peaks.h"

#include <algorithm>

namespace reprise::planning {

JoinedPeaks::JoinedPeaks(const StepTrace& trace, const std::vector<TracedDecision>& decisions)
    : trace_(trace), decisions_(decisions), group_of_(decisions.size(), kNone) {
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i].joined == 0) {
      continue;
    }
    Group group{.first = i, .last = i + decisions[i].joined};
    for (size_t region = group.first; region <= group.last; ++region) {
      group_of_[region] = groups_.size();
      // Backward reaches the last region first.
      const TracedRegion& traced = trace.regions[region];
      if (traced.recompute_begun < group.recomputed) {
        group.recomputed = traced.recompute_begun;
        group.entry_bytes = traced.recompute_entry_bytes;
      }
    }
    groups_.push_back(group);
  }
}

/// Whether the storage is saved by a region that is plain inside an outer one.
bool JoinedPeaks::is_saved(const TracedStorage& storage) const {
  return decisions_[storage.region].is_plain && storage.is_saved;
}

std::vector<JoinedPeaks::Change> JoinedPeaks::changes() const {
  std::vector<Change> changes;
  if (groups_.empty()) {
    return changes;
  }
  for (const TracedStorage& storage : trace_.storages) {
    if (!covers(storage.region)) {
      continue;
    }
    const Group& group = groups_[group_of_[storage.region]];
    const bool is_passed_on = storage.last_input_of != kNone && storage.last_input_of <= group.last;
    if (is_passed_on) {
      const size_t back = group.recomputed == kNone ? storage.died : group.recomputed - 1;
      const size_t used = trace_.regions[storage.last_input_of].forward_end;
      changes.push_back({used + 1, std::min(storage.died, back), -storage.bytes});
    }
    if (decisions_[storage.region].is_plain) {
      changes.push_back({storage.remade, storage.used_up, -storage.bytes});
    }
    if (is_saved(storage) && group.recomputed != kNone && storage.died != kNone) {
      // If it is saved but no recompute made it again, it dies with the region at the latest.
      const size_t used_up =
          storage.remade == kNone ? trace_.regions[storage.region].released : storage.used_up;
      changes.push_back({std::max(group.recomputed, storage.died + 1), used_up, storage.bytes});
    }
  }
  return changes;
}

bool JoinedPeaks::is_rerun(const TraceInterval& interval) const {
  if (interval.phase != StepPhase::Forward || !covers(interval.region)) {
    return false;
  }
  const bool is_last = interval.region == groups_[group_of_[interval.region]].last;
  return !is_last || (decisions_[interval.region].is_plain && interval.op != kNone &&
                      interval.op < trace_.regions[interval.region].rerun_ops);
}

/// What plain regions save outlives its forward, to the end of the outer recompute.
std::vector<int64_t> JoinedPeaks::retained_in_rerun() const {
  std::vector<int64_t> steps(trace_.intervals.size() + 1);
  for (const TracedStorage& storage : trace_.storages) {
    if (covers(storage.region) && is_saved(storage)) {
      const size_t end = trace_.regions[groups_[group_of_[storage.region]].last].forward_end;
      if (storage.died < end) {
        steps[storage.died + 1] += storage.bytes;
        steps[end + 1] -= storage.bytes;
      }
    }
  }
  return steps;
}

std::vector<int64_t> JoinedPeaks::recompute_peaks(const std::vector<int64_t>& levels,
                                                  Counted counted) const {
  std::vector<int64_t> peaks(decisions_.size());
  if (groups_.empty()) {
    return peaks;
  }
  const auto steps = retained_in_rerun();
  int64_t retained = 0;
  for (size_t i = 0; i < trace_.intervals.size(); ++i) {
    retained += steps[i];
    const TraceInterval& interval = trace_.intervals[i];
    if (!is_rerun(interval)) {
      continue;
    }
    const Group& group = groups_[group_of_[interval.region]];
    if (group.recomputed == kNone) {
      continue;
    }
    const bool has_gradients =
        counted == Counted::WithGradients && group.recomputed < trace_.intervals.size();
    const int64_t before = group.entry_bytes + levels[group.recomputed - 1] +
                           (has_gradients ? trace_.intervals[group.recomputed].gradient_bytes : 0);
    const int64_t own = interval.peak_bytes - trace_.regions[group.first].entry_bytes + retained;
    peaks[interval.region] = std::max(peaks[interval.region], before + own);
  }
  return peaks;
}

}  // namespace reprise::planning
