// What a plan wants to know of a traced step, from what was written down while it ran.
#include "plan/step_tracer.h"

#include "plan/storage_facts.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace reprise::planning {

StepTrace trace_step(const std::function<void()>& step, c10::Device device) {
  if (!device.is_cpu()) {
    // Libraries allocate workspaces and load kernels on first use: not the step's own bytes and
    // time. A traced run leaves everything as it was, so it does for a rehearsal.
    StepTracer(device).run(step);
  }
  return StepTracer(device).run(step);
}

StepTrace StepTracer::finish() {
  const std::scoped_lock lock(mutex_);
  end_work(kNone);
  const size_t now = clock_.mark();
  if (phase_ == StepPhase::Backward) {
    watches_[region_].backward_ended = now;
  }
  clock_.finish();
  TORCH_CHECK(!trace_.regions.empty(),
              "[plan] the traced step ran no region, so there is nothing to plan. Wrap its blocks "
              "in reprise::checkpoint, or enable checkpointing of the model.");
  TORCH_CHECK(nodes_ > 0,
              "[plan] the traced step ran no backward. A step to trace is a forward and its "
              "backward.");
  StepTrace trace = std::move(trace_);
  trace.host = host_of(trace.device);
  summarize_intervals(trace);
  summarize_inputs(trace);
  summarize_times(trace);
  find_kinds(trace);
  return trace;
}

void StepTracer::summarize_intervals(StepTrace& trace) const {
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

void StepTracer::summarize_inputs(StepTrace& trace) const {
  std::map<size_t, size_t> uses;
  for (const auto& watch : watches_) {
    for (const auto& input : watch.inputs) {
      ++uses[input.number];
    }
  }
  for (size_t i = 0; i < watches_.size(); ++i) {
    for (const auto& input : watches_[i].inputs) {
      TracedInput traced = input.traced;
      traced.died = roles_[input.number].died;
      trace.regions[i].input_bytes += uses[input.number] == 1 ? traced.bytes : 0;
      trace.regions[i].inputs.push_back(traced);
    }
  }
  for (const auto& [input, count] : uses) {
    trace.shared_input_bytes += count > 1 ? roles_[input].bytes : 0;
  }
}

void StepTracer::summarize_times(StepTrace& trace) const {
  trace.before_ms = clock_.ms_between(begun_, watches_.front().begun);
  std::optional<size_t> first_recompute;
  for (const auto& watch : watches_) {
    if (watch.recompute_begun) {
      first_recompute = std::min(first_recompute.value_or(kNone), *watch.recompute_begun);
    }
  }
  if (first_recompute) {
    trace.head_ms = clock_.ms_between(watches_.back().ended, *first_recompute);
  }
  for (size_t i = 0; i < watches_.size(); ++i) {
    const auto& watch = watches_[i];
    auto& region = trace.regions[i];
    region.forward_ms = clock_.ms_between(watch.begun, watch.ended);
    for (size_t op = 0; op < region.ops.size(); ++op) {
      const auto [begun, ended] = watch.op_times[op];
      region.ops[op].forward_ms = clock_.ms_between(begun, ended);
    }
    if (watch.recompute_begun && watch.recompute_ended) {
      region.recompute_ms = clock_.ms_between(*watch.recompute_begun, *watch.recompute_ended);
    }
    if (watch.recompute_ended && watch.backward_ended) {
      region.backward_ms = clock_.ms_between(*watch.recompute_ended, *watch.backward_ended);
    }
  }
}

/// By the work and the sizes that were asked for: malloc rounds equal requests differently.
void StepTracer::find_kinds(StepTrace& trace) const {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < watches_.size(); ++i) {
    auto& region = trace.regions[i];
    std::string signature = c10::str(watches_[i].raw_input_bytes, "|", region.rerun_ops);
    for (size_t op = 0; op < region.ops.size(); ++op) {
      const auto& traced = region.ops[op];
      signature += c10::str("|",
                            traced.name,
                            ".",
                            traced.overload,
                            " ",
                            watches_[i].raw_bytes[op],
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
