// The parts of the page about a memory plan, top to bottom. Each is "" when the report has nothing
// for it.
#pragma once

#include <reprise/export.h>
#include <reprise/train/memory_report.h>

#include <string>

namespace reprise::report {

/// The plan in one sentence: budget, prediction, and what they are instead of.
REPRISE_API std::string plan_sentence(const MemoryReport& report);

/// Title, what is planned, the sentence.
std::string memory_header_html(const MemoryReport& report);
std::string memory_notes_html(const MemoryReport& report);
/// The sentence's figures, as tiles.
std::string memory_tiles_html(const MemoryReport& report);
/// Bytes by class at the peak, with the plan and without checkpointing.
std::string memory_classes_html(const MemoryReport& report);
/// One step, with the plan and without checkpointing, on one scale.
std::string memory_timelines_html(const MemoryReport& report);
/// Bytes against time, and measured peaks.
std::string memory_charts_html(const MemoryReport& report);
/// What becomes of every result.
std::string memory_plan_html(const MemoryReport& report);

}  // namespace reprise::report
