#include "plan/step_timeline.h"

#include "plan/cost/trace_peaks.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace reprise {

int64_t TimelinePoint::total() const {
  return input_bytes + kept_bytes + working_bytes + head_bytes + gradient_bytes;
}

int64_t StepTimeline::peak() const {
  int64_t most = 0;
  for (const TimelinePoint& point : points) {
    most = std::max(most, point.total());
  }
  return most;
}

double StepTimeline::duration_ms() const {
  return points.empty() ? 0 : points.back().start_ms + points.back().duration_ms;
}

namespace planning {
namespace {

using Stage = std::pair<StepStage, size_t>;

/// The stage of an interval, in the way that predict_peaks assigns intervals to points.
Stage stage_of(const TraceInterval& interval, size_t regions) {
  switch (interval.phase) {
    case StepPhase::Forward:
      return {StepStage::Forward, interval.region};
    case StepPhase::Recompute:
      return {StepStage::Recompute, interval.region};
    case StepPhase::Backward:
      return {StepStage::Backward, interval.region};
    case StepPhase::Outside:
      break;
  }
  return interval.region == 0         ? Stage{StepStage::Before, 0}
         : interval.region == regions ? Stage{StepStage::Head, 0}
                                      : Stage{StepStage::Forward, interval.region - 1};
}

/// The stages of the step in the order in which they began.
std::vector<Stage> stages_of(const StepTrace& trace) {
  std::set<Stage> seen;
  std::vector<Stage> stages;
  for (const TraceInterval& interval : trace.intervals) {
    const Stage stage = stage_of(interval, trace.regions.size());
    if (seen.insert(stage).second) {
      stages.push_back(stage);
    }
  }
  return stages;
}

int64_t peak_of(const StepPeaks& peaks, Stage stage) {
  switch (stage.first) {
    case StepStage::Before:
      return peaks.before;
    case StepStage::Forward:
      return peaks.forward[stage.second];
    case StepStage::Head:
      return peaks.head;
    case StepStage::Recompute:
      return peaks.recompute[stage.second];
    case StepStage::Backward:
      return peaks.backward[stage.second];
  }
  return 0;
}

double duration_of(const StepTrace& trace, const RegionDecision& decision, Stage stage) {
  const TracedRegion& region = timed_as(trace, stage.second);
  switch (stage.first) {
    case StepStage::Before:
      return trace.before_ms;
    case StepStage::Forward:
      return region.forward_ms;
    case StepStage::Head:
      return trace.head_ms;
    case StepStage::Recompute:
      return recompute_ms(region, decision);
    case StepStage::Backward:
      return region.backward_ms;
  }
  return 0;
}

/// Divides the total into inputs and kept results, as far as they fit, and `rest`.
void share_out(TimelinePoint& point,
               int64_t total,
               int64_t inputs,
               int64_t kept,
               int64_t TimelinePoint::*rest) {
  // Offloaded inputs make the kept bytes negative.
  point.input_bytes = std::clamp<int64_t>(inputs + std::min<int64_t>(kept, 0), 0, total);
  point.kept_bytes = std::clamp<int64_t>(kept, 0, total - point.input_bytes);
  point.*rest = total - point.input_bytes - point.kept_bytes;
}

}  // namespace

const TracedRegion& timed_as(const StepTrace& trace, size_t region) {
  return trace.regions[trace.kinds[trace.regions[region].kind]];
}

Decision decision_about(const TracedOp& op, const RegionDecision& decision) {
  const auto found =
      std::find_if(decision.ops.begin(), decision.ops.end(), [&](const OpDecision& one) {
        return one.call_index == op.call_index && one.name == op.name &&
               one.overload == op.overload;
      });
  return found == decision.ops.end() || !op.can_keep ? Decision::Recompute : found->decision;
}

double recompute_ms(const TracedRegion& region, const RegionDecision& decision) {
  if (decision.is_plain) {
    return 0;
  }
  double ms = region.recompute_ms;
  double rerun = 0;
  for (const TracedOp& op : region.ops) {
    if (op.is_rerun) {
      ms -= op.forward_ms;
      rerun += decision_about(op, decision) == Decision::Recompute ? op.forward_ms : 0;
    }
  }
  return std::max(ms, 0.0) + rerun;
}

bool decide_the_same(const RegionDecision& a, const RegionDecision& b) {
  RegionDecision renamed = a;
  renamed.name = b.name;
  renamed.signature = b.signature;
  return renamed == b;
}

/// The decision without what it offloads to the host.
static RegionDecision on_device(RegionDecision decision) {
  decision.offload_inputs = false;
  std::erase_if(decision.ops,
                [](const OpDecision& op) { return op.decision == Decision::Offload; });
  return decision;
}

std::vector<int64_t> held_bytes(const StepTrace& trace,
                                const std::vector<RegionDecision>& decisions) {
  std::vector<int64_t> held;
  size_t joined_end = 0;
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i].joined > 0) {
      joined_end = i + decisions[i].joined + 1;
    }
    if (i < joined_end) {
      held.push_back(0);  // an outer region holds only the first one's input
      continue;
    }
    // Counting a region walks the whole trace, and most regions are like an earlier one.
    size_t like = 0;
    while (like < i && !(trace.regions[like].kind == trace.regions[i].kind &&
                         decide_the_same(decisions[like], decisions[i]))) {
      ++like;
    }
    held.push_back(like < i ? held[like] : region_peaks(trace, i, on_device(decisions[i])).held);
  }
  return held;
}

StepTimeline step_timeline(const StepTrace& trace,
                           const std::vector<RegionDecision>& decisions,
                           Counted counted) {
  const StepPeaks peaks = predict_peaks(trace, decisions);
  const StepPeaks all_peaks = predict_peaks(trace, decisions, counted);
  const std::vector<int64_t> held = held_bytes(trace, decisions);
  std::vector<int64_t> held_before(held.size() + 1);
  std::partial_sum(held.begin(), held.end(), held_before.begin() + 1);

  StepTimeline timeline;
  for (const Stage& stage : stages_of(trace)) {
    const auto [kind, region] = stage;
    const int64_t total = peak_of(peaks, stage);
    if (kind == StepStage::Recompute && total == 0) {
      continue;  // nothing is recomputed
    }
    TimelinePoint point{.stage = kind,
                        .region = region,
                        .start_ms = timeline.duration_ms(),
                        .duration_ms = duration_of(trace, decisions[region], stage)};
    if (kind == StepStage::Before) {
      point.working_bytes = total;
    } else if (kind == StepStage::Head) {
      share_out(point, total, trace.head_bytes, held_before.back(), &TimelinePoint::head_bytes);
    } else {
      // What the region itself holds is made in its forward and counts from then on.
      share_out(point,
                total,
                trace.regions[region].entry_bytes,
                held_before[kind == StepStage::Forward ? region : region + 1],
                &TimelinePoint::working_bytes);
    }
    point.gradient_bytes = peak_of(all_peaks, stage) - total;
    timeline.points.push_back(point);
  }
  return timeline;
}

StepTimeline plain_timeline(const StepTrace& trace, Counted counted) {
  std::vector<RegionDecision> decisions;
  for (const TracedRegion& region : trace.regions) {
    decisions.push_back({.name = region.name, .is_plain = true});
  }
  return step_timeline(trace, decisions, counted);
}

}  // namespace planning
}  // namespace reprise
