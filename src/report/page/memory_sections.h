// The sections of the memory plan page, top to bottom. Each is "" if the report has no data for it.
#pragma once

#include <reprise/export.h>
#include <reprise/report/memory_report.h>

#include <string>

namespace reprise::report {

/// The plan in one sentence: budget and prediction, compared with no checkpointing.
REPRISE_API std::string plan_sentence(const MemoryReport& report);

/// Title, model and device, and the sentence.
std::string memory_header_html(const MemoryReport& report);
std::string memory_notes_html(const MemoryReport& report);
/// The figures of the sentence, as tiles.
std::string memory_tiles_html(const MemoryReport& report);
/// Bytes by class at the peak, with the plan and without checkpointing.
std::string memory_classes_html(const MemoryReport& report);
/// One step with the plan and without checkpointing, on the same scale.
std::string memory_timelines_html(const MemoryReport& report);
/// Memory against time, and measured peaks.
std::string memory_charts_html(const MemoryReport& report);
/// What the plan does with every operator result.
std::string memory_plan_html(const MemoryReport& report);

}  // namespace reprise::report
