// Note [Traces that can be compared]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Which intervals a trace has depends on sizes: there is one between two operators only if memory
// rose there, and a longer batch has more chunks of the loss. So before two traces are compared,
// intervals are merged if no storage is made, written or freed between them, and the intervals
// between a region's operators are merged with a neighbour.
#include "plan/trace/trace_between.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprise::planning {

namespace {

bool is_between_ops(const TraceInterval& interval) {
  return interval.op == kNone &&
         (interval.phase == StepPhase::Forward || interval.phase == StepPhase::Recompute);
}

/// The intervals in which the life of a region's storage begins or ends.
constexpr size_t TracedStorage::*kBegins[] = {&TracedStorage::made,
                                              &TracedStorage::written,
                                              &TracedStorage::remade,
                                              &TracedStorage::rewritten};
constexpr size_t TracedStorage::*kEnds[] = {&TracedStorage::died, &TracedStorage::used_up};

/// For each interval, whether it stays separate from the one before it.
std::vector<bool> cuts_of(const StepTrace& trace) {
  std::vector<bool> cuts(trace.intervals.size() + 1);
  const auto cut = [&](size_t before) {
    if (before < cuts.size()) {
      cuts[before] = true;
    }
  };
  for (const TracedStorage& storage : trace.storages) {
    for (const auto begin : kBegins) {
      cut(storage.*begin);
    }
    for (const auto end : kEnds) {
      cut(storage.*end == kNone ? kNone : storage.*end + 1);
    }
  }
  for (const TracedRegion& region : trace.regions) {
    for (const TracedInput& input : region.inputs) {
      cut(input.made);
      cut(input.died == kNone ? kNone : input.died + 1);
    }
    cut(region.released == kNone ? kNone : region.released + 1);
    cut(region.forward_end + 1);
    cut(region.recompute_begun);
  }
  bool begins_between = false;  // so far there were only intervals to merge with a neighbour
  for (size_t i = 0; i < trace.intervals.size(); ++i) {
    const auto& interval = trace.intervals[i];
    const bool is_new_phase = i == 0 || trace.intervals[i - 1].phase != interval.phase ||
                              trace.intervals[i - 1].region != interval.region;
    if (is_new_phase) {
      cuts[i] = true;
      begins_between = is_between_ops(interval);
    } else if (is_between_ops(interval) || begins_between) {
      cuts[i] = false;
      begins_between = begins_between && is_between_ops(interval);
    } else if (interval.op != kNone) {
      cuts[i] = true;
    }
  }
  return cuts;
}

/// The trace with merged intervals: Note [Traces that can be compared].
StepTrace coarse(const StepTrace& trace) {
  const auto cuts = cuts_of(trace);
  StepTrace result = trace;
  result.intervals.clear();
  std::vector<size_t> merged_into;
  for (size_t i = 0; i < trace.intervals.size(); ++i) {
    if (i == 0 || cuts[i]) {
      result.intervals.push_back(trace.intervals[i]);
    } else {
      auto& last = result.intervals.back();
      last.op = last.op == kNone ? trace.intervals[i].op : last.op;
      last.peak_bytes = std::max(last.peak_bytes, trace.intervals[i].peak_bytes);
      last.gradient_bytes = std::max(last.gradient_bytes, trace.intervals[i].gradient_bytes);
    }
    merged_into.push_back(result.intervals.size() - 1);
  }
  const auto move = [&](size_t& interval) {
    interval = interval < merged_into.size() ? merged_into[interval] : interval;
  };
  for (TracedStorage& storage : result.storages) {
    for (const auto member : kBegins) {
      move(storage.*member);
    }
    for (const auto member : kEnds) {
      move(storage.*member);
    }
  }
  for (TracedRegion& region : result.regions) {
    for (TracedInput& input : region.inputs) {
      move(input.made);
      move(input.died);
    }
    move(region.released);
    move(region.forward_end);
    move(region.recompute_begun);
  }
  return result;
}

bool lived_the_same(const TracedInput& a, const TracedInput& b) {
  return a.storage == b.storage && a.is_saved == b.is_saved && a.is_private == b.is_private &&
         a.made == b.made && a.died == b.died;
}

bool did_the_same(const TracedRegion& a, const TracedRegion& b) {
  bool is_same = a.name == b.name && a.kind == b.kind && a.ops.size() == b.ops.size() &&
                 a.rerun_ops == b.rerun_ops && a.released == b.released &&
                 a.forward_end == b.forward_end && a.joinable == b.joinable &&
                 a.is_recomputed == b.is_recomputed &&
                 std::equal(a.inputs.begin(),
                            a.inputs.end(),
                            b.inputs.begin(),
                            b.inputs.end(),
                            [](const auto& x, const auto& y) { return lived_the_same(x, y); }) &&
                 a.recompute_begun == b.recompute_begun;
  for (size_t i = 0; is_same && i < a.ops.size(); ++i) {
    const TracedOp& x = a.ops[i];
    const TracedOp& y = b.ops[i];
    is_same = x.name == y.name && x.overload == y.overload && x.call_index == y.call_index &&
              x.is_saved == y.is_saved && x.can_keep == y.can_keep && x.is_rerun == y.is_rerun;
  }
  return is_same;
}

bool lived_the_same(const TracedStorage& a, const TracedStorage& b) {
  return a.region == b.region && a.op == b.op && a.is_saved == b.is_saved && a.made == b.made &&
         a.died == b.died && a.written == b.written && a.remade == b.remade &&
         a.used_up == b.used_up && a.rewritten == b.rewritten && a.last_input_of == b.last_input_of;
}

bool did_the_same(const StepTrace& a, const StepTrace& b) {
  bool is_same = a.device == b.device && a.regions.size() == b.regions.size() &&
                 a.intervals.size() == b.intervals.size() && a.storages.size() == b.storages.size();
  for (size_t i = 0; is_same && i < a.regions.size(); ++i) {
    is_same = did_the_same(a.regions[i], b.regions[i]);
  }
  for (size_t i = 0; is_same && i < a.storages.size(); ++i) {
    is_same = lived_the_same(a.storages[i], b.storages[i]);
  }
  for (size_t i = 0; is_same && i < a.intervals.size(); ++i) {
    is_same = a.intervals[i].phase == b.intervals[i].phase &&
              a.intervals[i].region == b.intervals[i].region &&
              a.intervals[i].op == b.intervals[i].op;
  }
  return is_same;
}

/// Interpolates the numbers of one trace towards those of another.
class Mix {
 public:
  explicit Mix(double share) : share_(share) {}

  void move(int64_t& from, int64_t to) const {
    from += static_cast<int64_t>(std::ceil(static_cast<double>(to - from) * share_));
  }
  void move(double& from, double to) const { from += (to - from) * share_; }

  template <class Record, class... Members>
  void move(Record& from, const Record& to, Members... members) const {
    (move(from.*members, to.*members), ...);
  }

 private:
  double share_;
};

}  // namespace

std::optional<StepTrace> trace_between(const StepTrace& from, const StepTrace& to, double share) {
  TORCH_INTERNAL_ASSERT(share >= 0 && share <= 1);
  StepTrace trace = coarse(from);
  const StepTrace large = coarse(to);
  if (!did_the_same(trace, large)) {
    return std::nullopt;
  }
  const Mix mix(share);
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    using Region = TracedRegion;
    auto& region = trace.regions[i];
    mix.move(region,
             large.regions[i],
             &Region::input_bytes,
             &Region::saved_bytes,
             &Region::output_bytes,
             &Region::log_bytes,
             &Region::forward_ms,
             &Region::recompute_ms,
             &Region::backward_ms,
             &Region::entry_bytes,
             &Region::forward_peak,
             &Region::recompute_peak,
             &Region::backward_peak,
             &Region::recompute_entry_bytes);
    region.signature = {};  // no step was like this
    // Small copies may come at other moments. At the end of forward all of them are there.
    region.copies.clear();
    if (region.log_bytes > 0) {
      region.copies.push_back({region.forward_end, region.log_bytes});
    }
    for (size_t k = 0; k < region.inputs.size(); ++k) {
      mix.move(region.inputs[k],
               large.regions[i].inputs[k],
               &TracedInput::bytes,
               &TracedInput::host_bytes);
    }
    for (size_t k = 0; k < region.ops.size(); ++k) {
      mix.move(region.ops[k],
               large.regions[i].ops[k],
               &TracedOp::bytes,
               &TracedOp::workspace_bytes,
               &TracedOp::forward_ms);
    }
  }
  for (size_t i = 0; i < trace.intervals.size(); ++i) {
    mix.move(trace.intervals[i],
             large.intervals[i],
             &TraceInterval::peak_bytes,
             &TraceInterval::gradient_bytes);
  }
  for (size_t i = 0; i < trace.storages.size(); ++i) {
    mix.move(
        trace.storages[i], large.storages[i], &TracedStorage::bytes, &TracedStorage::host_bytes);
    mix.move(trace.storages[i].compressed,
             large.storages[i].compressed,
             &TracedForm::bytes,
             &TracedForm::making_bytes,
             &TracedForm::restoring_bytes);
  }
  mix.move(trace,
           large,
           &StepTrace::shared_input_bytes,
           &StepTrace::before_ms,
           &StepTrace::head_ms,
           &StepTrace::before_peak,
           &StepTrace::head_bytes,
           &StepTrace::head_peak,
           &StepTrace::peak);
  return trace;
}

}  // namespace reprise::planning
