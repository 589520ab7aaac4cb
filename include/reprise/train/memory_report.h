// memory.html: a memory plan as one file that opens from disk: no network, no other file, light and
// dark. What a step holds as time goes by, with the plan and without checkpointing; what bytes
// would buy; what becomes of every result, and why; predicted against measured.
//
//   auto report = reprise::memory_report(plan);
//   report.title = "Llama 3.2 1B, 8 x 2048 tokens";
//   report.fixed = {{"parameters", parameter_bytes}, {"optimizer", optimizer_bytes}};
//   reprise::write_memory_report("memory.html", report);
//
// Every part but the title may be missing; what is not given is not shown.
#pragma once

#include <reprise/export.h>
#include <reprise/plan.h>
#include <reprise/plan_report.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

/// Bytes that are there all the time, beside activations.
struct FixedMemory {
  std::string name;
  int64_t bytes = 0;
};

struct MemoryReport {
  std::string title;
  std::string model = {};
  std::string device = {};
  int64_t budget = 0;      ///< of activations; 0: none was given
  int64_t peak_bytes = 0;  ///< of activations, predicted
  double extra_ms = 0;     ///< over the step without checkpointing, predicted
  std::vector<FixedMemory> fixed = {};
  StepTimeline timeline = {};        ///< with the plan
  StepTimeline plain_timeline = {};  ///< without checkpointing
  std::vector<PlanPoint> curve = {};
  std::vector<PlanRow> rows = {};
  std::vector<int64_t> measured_peaks = {};  ///< of activations, step after step
  std::vector<std::string> notes = {};       ///< shown first: what a reader has to know
};

/// All that the plan itself knows; a plan without a trace has no timelines, curve and rows.
REPRISE_API MemoryReport memory_report(const MemoryPlan& plan);

/// The page as text.
REPRISE_API std::string memory_report_html(const MemoryReport& report);

/// Writes the page whole or not at all.
REPRISE_API void write_memory_report(const std::filesystem::path& path, const MemoryReport& report);

}  // namespace reprise
