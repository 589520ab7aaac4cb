#include "report/charts/resource_charts.h"

#include "report/charts/online_charts.h"

namespace reprise::report {

namespace {

ChartPlan planning_time() {
  return {.title = "Planning",
          .note = "Time spent on memory plans before a step, which is not part of it",
          .curves = {{"budget/planning_ms", "planning"}},
          .unit = Unit::Milliseconds,
          .start = AxisStart::AtZero};
}

}  // namespace

StackPlan memory_by_class(const std::string& role, const std::string& title) {
  StackPlan plan{.title = title,
                 .note = "At each step's peak; recompute: what backward works with",
                 .unit = Unit::Bytes,
                 .parts = {{"parameters", "parameters", 0},
                           {"gradients", "gradients", 5},
                           {"optimizer", "optimizer", 2},
                           {"activations", "activations", 1},
                           {"recompute", "recompute", 4},
                           {"logits", "logits", 3},
                           {"other", "other", 6}}};
  for (StackPart& part : plan.parts) {
    part.key = role + "memory/" + part.key;
  }
  return plan;
}

std::vector<ChartPlan> memory_plans(const Runs& runs) {
  const ChartPlan peak{.title = "Peak memory",
                       .note = "",
                       .curves = {{"peak_bytes", "peak"}},
                       .unit = Unit::Bytes,
                       .start = AxisStart::AtZero};
  ChartPlan activations{
      .title = "Activations",
      .note =
          "Kept from forward to backward, and the most at once, which a budget for activations "
          "limits",
      .curves = {{"activation_bytes", "kept"}, {"activation_peak_bytes", "most at once"}},
      .unit = Unit::Bytes,
      .start = AxisStart::AtZero};
  if (runs.size() == 1) {  // with several runs, the others show it
    activations.curves.push_back(
        {"estimated_activation_bytes", "kept without checkpointing", Stroke::Dashed});
  }
  const ChartPlan offload{.title = "Offload",
                          .note =
                              "Gradients and optimizer state in host memory, and what a step "
                              "moves between host and device",
                          .curves = {{"host_bytes", "in host memory"}, {"moved_bytes", "moved"}},
                          .unit = Unit::Bytes,
                          .start = AxisStart::AtZero};
  return {phase_peaks(), peak, activations, offload};
}

std::vector<ChartPlan> speed_plans() {
  return {rollout_speed(),
          {.title = "Step time",
           .note = "",
           .curves = {{"step_ms", "step"}, {"recompute_ms", "recompute", Stroke::Dashed}},
           .unit = Unit::Milliseconds,
           .start = AxisStart::AtZero},
          planning_time()};
}

Chart throughput_chart(const Runs& runs) {
  Chart throughput{.title = "Throughput",
                   .note = "",
                   .unit = Unit::TokensPerSecond,
                   .start = AxisStart::AtZero,
                   .lines = {}};
  for (size_t run = 0; run < runs.size(); ++run) {
    throughput.lines.push_back({.name = runs.size() == 1 ? "tokens per second" : runs[run].name,
                                .series = ratio_of(runs[run].steps, "tokens", "step_ms", 1000),
                                .color = color_of(run, 0, runs.size()),
                                .clock = clock_of(runs[run])});
  }
  return throughput;
}

}  // namespace reprise::report
