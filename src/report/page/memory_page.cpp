// Assembles the memory plan page.
#include "report/page/memory_sections.h"
#include "report/page/parts.h"

#include <reprise/io/file.h>
#include <reprise/report/memory_report.h>

namespace reprise {

MemoryReport memory_report(const MemoryPlan& plan) {
  MemoryReport report{.title = "Memory plan",
                      .budget = plan.budget(),
                      .peak_bytes = plan.peak_bytes(),
                      .extra_ms = plan.extra_ms(),
                      .curve = plan.curve()};
  if (plan.has_trace()) {
    report.timeline = plan.timeline();
    report.plain_timeline = plan.plain_timeline();
    report.rows = plan.explain();
  }
  return report;
}

std::string memory_report_html(const MemoryReport& memory) {
  return report::page_html(
      memory.title,
      report::memory_header_html(memory) + report::memory_notes_html(memory) +
          report::memory_tiles_html(memory) + report::memory_timelines_html(memory) +
          report::memory_charts_html(memory) + report::memory_classes_html(memory) +
          report::memory_plan_html(memory));
}

void write_memory_report(const std::filesystem::path& path, const MemoryReport& memory) {
  write_file(path, memory_report_html(memory));
}

}  // namespace reprise
