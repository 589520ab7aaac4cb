// memory.html: a memory plan as a single self-contained HTML file that needs no network and
// supports light and dark mode. It shows the memory of a step over time, with the plan and without
// checkpointing; step time against memory; what the plan does with every operator result, and why;
// and predicted against measured peaks.
//
//   auto report = reprise::memory_report(plan);
//   report.title = "Llama 3.2 1B, 8 x 2048 tokens";
//   report.fixed = {{"parameters", parameter_bytes}, {"optimizer", optimizer_bytes}};
//   reprise::write_memory_report("memory.html", report);
//
// Only the title is required; what is not given is not shown.
#pragma once

#include <reprise/export.h>
#include <reprise/plan.h>
#include <reprise/plan_report.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

/// Bytes that are allocated during the whole step, besides activations.
struct FixedMemory {
  std::string name;
  int64_t bytes = 0;
};

struct MemoryReport {
  std::string title;
  std::string model = {};
  std::string device = {};
  int64_t budget = 0;      ///< activation bytes; 0: no budget
  int64_t peak_bytes = 0;  ///< activation bytes, predicted
  double extra_ms = 0;     ///< compared with a step without checkpointing, predicted
  std::vector<FixedMemory> fixed = {};
  /// The device at the largest measured peak, by class; the sum is the peak of the run. Shown
  /// instead of `fixed`.
  std::vector<FixedMemory> measured = {};
  std::vector<FixedMemory> plain = {};  ///< the same without checkpointing, predicted
  StepTimeline timeline = {};           ///< with the plan
  StepTimeline plain_timeline = {};     ///< without checkpointing
  std::vector<PlanPoint> curve = {};
  std::vector<PlanRow> rows = {};
  std::vector<int64_t> measured_peaks = {};  ///< activation bytes of each step
  std::vector<std::string> notes = {};       ///< shown first
};

/// Fills in what the plan knows. A plan without a trace has no timelines, curve and rows.
REPRISE_API MemoryReport memory_report(const MemoryPlan& plan);

/// The page as text.
REPRISE_API std::string memory_report_html(const MemoryReport& report);

/// Writes the page atomically.
REPRISE_API void write_memory_report(const std::filesystem::path& path, const MemoryReport& report);

}  // namespace reprise
