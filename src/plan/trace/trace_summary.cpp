#include "plan/trace/trace_summary.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace reprise::planning {
namespace {

void fill_in_peaks(StepTrace& trace) {
  bool has_recomputed = false;
  for (const auto& interval : trace.intervals) {
    trace.peak = std::max(trace.peak, interval.peak_bytes);
    if (interval.phase == StepPhase::Outside) {
      if (interval.region == 0) {
        trace.before_peak = std::max(trace.before_peak, interval.peak_bytes);
      } else if (interval.region == trace.regions.size() && !has_recomputed) {
        trace.head_peak = std::max(trace.head_peak, interval.peak_bytes - trace.head_bytes);
      }
      continue;
    }
    auto& region = trace.regions[interval.region];
    auto& peak = interval.phase == StepPhase::Forward     ? region.forward_peak
                 : interval.phase == StepPhase::Recompute ? region.recompute_peak
                                                          : region.backward_peak;
    peak = std::max(peak, interval.peak_bytes - region.entry_bytes);
    has_recomputed = has_recomputed || interval.phase == StepPhase::Recompute;
  }
}

}  // namespace

void TraceSummary::fill_in(StepTrace& trace) const {
  fill_in_peaks(trace);
  fill_in_inputs(trace);
  fill_in_times(trace);
  fill_in_kinds(trace);
}

void TraceSummary::fill_in_inputs(StepTrace& trace) const {
  std::map<size_t, size_t> uses;
  for (const auto& region : regions_) {
    for (const auto& input : region.inputs.all()) {
      ++uses[input.number];
    }
  }
  for (size_t i = 0; i < regions_.size(); ++i) {
    for (const auto& input : regions_[i].inputs.all()) {
      TracedInput traced = input.traced;
      traced.died = storages_.entry(input.number).died;
      trace.regions[i].input_bytes += uses[input.number] == 1 ? traced.bytes : 0;
      trace.regions[i].inputs.push_back(traced);
    }
  }
  for (const auto& [number, count] : uses) {
    trace.shared_input_bytes += count > 1 ? storages_.entry(number).bytes : 0;
  }
}

void TraceSummary::fill_in_times(StepTrace& trace) const {
  trace.before_ms = clock_.ms_between(begun_, regions_.front().begun);
  std::optional<size_t> first_recompute;
  for (const auto& record : regions_) {
    if (record.recompute_begun) {
      first_recompute = std::min(first_recompute.value_or(kNone), *record.recompute_begun);
    }
  }
  if (first_recompute) {
    trace.head_ms = clock_.ms_between(regions_.back().ended, *first_recompute);
  }
  for (size_t i = 0; i < regions_.size(); ++i) {
    const auto& record = regions_[i];
    auto& region = trace.regions[i];
    region.forward_ms = clock_.ms_between(record.begun, record.ended);
    for (size_t op = 0; op < region.ops.size(); ++op) {
      const auto [begun, ended] = record.ops.times(op);
      region.ops[op].forward_ms = clock_.ms_between(begun, ended);
    }
    if (record.recompute_begun && record.recompute_ended) {
      region.recompute_ms = clock_.ms_between(*record.recompute_begun, *record.recompute_ended);
    }
    if (record.recompute_ended && record.backward_ended) {
      region.backward_ms = clock_.ms_between(*record.recompute_ended, *record.backward_ended);
    }
  }
}

// Regions are compared by their operators and by the sizes that were asked for, because malloc
// rounds equal requests differently.
void TraceSummary::fill_in_kinds(StepTrace& trace) const {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < regions_.size(); ++i) {
    auto& region = trace.regions[i];
    std::string signature = c10::str(regions_[i].inputs.raw_bytes(), "|", region.rerun_ops);
    for (size_t op = 0; op < region.ops.size(); ++op) {
      const auto& traced = region.ops[op];
      signature += c10::str("|",
                            traced.name,
                            ".",
                            traced.overload,
                            " ",
                            regions_[i].ops.raw_bytes(op),
                            traced.is_saved ? " saved" : "");
    }
    const auto [found, is_new] = known.emplace(std::move(signature), trace.kinds.size());
    if (is_new) {
      trace.kinds.push_back(i);
    }
    region.kind = found->second;
  }
}

}  // namespace reprise::planning
