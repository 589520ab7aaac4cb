// The head of the memory plan page: one sentence, its figures, and bytes by class.
#include "report/charts/axis.h"
#include "report/page/html.h"
#include "report/page/memory_sections.h"
#include "report/page/parts.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::report {
namespace {

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

/// "8.1 %" of the step time without checkpointing; "" if that is unknown.
std::string slowdown(const MemoryReport& report) {
  const double plain = report.plain_timeline.duration_ms();
  return plain > 0 ? human_number(100 * report.extra_ms / plain, 2) + " %" : std::string();
}

std::string extra_time(const MemoryReport& report) {
  return human_seconds(report.extra_ms / 1000);
}

int64_t measured_peak(const MemoryReport& report) {
  return *std::max_element(report.measured_peaks.begin(), report.measured_peaks.end());
}

std::string fact_html(const char* label, const std::string& text) {
  return text.empty()
             ? text
             : element("div", "", text_element("dt", "", label) + text_element("dd", "", text));
}

/// The training report's colour of a class.
int color_of(const std::string& name) {
  return name == "parameters"                            ? 0
         : name == "optimizer"                           ? 5
         : name.find("activations") != std::string::npos ? 1
                                                         : 2;
}

int64_t total_of(const std::vector<FixedMemory>& classes) {
  int64_t total = 0;
  for (const FixedMemory& each : classes) {
    total += each.bytes;
  }
  return total;
}

/// Bytes by class of one of the two steps, on a common scale.
std::string bars_html(const std::string& heading,
                      const std::vector<FixedMemory>& classes,
                      const char* sum,
                      int64_t longest) {
  const auto bar = [&](const std::string& name, int64_t bytes, int color) {
    return bar_html(name,
                    bytes_text(bytes),
                    static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(longest, 1)),
                    color);
  };
  std::string bars = text_element("h4", "", heading);
  for (const FixedMemory& each : classes) {
    bars += bar(each.name, each.bytes, color_of(each.name));
  }
  return element("div", "", bars + bar(sum, total_of(classes), 6));
}

/// Maxima that need not come at the same moment: their sum is a bound.
std::vector<FixedMemory> with_activations(const MemoryReport& report, int64_t activations) {
  auto classes = report.fixed;
  classes.push_back({"activations", activations});
  return classes;
}

}  // namespace

std::string plan_sentence(const MemoryReport& report) {
  const std::string budget =
      report.budget > 0 ? bytes_text(report.budget) + " budget: " : std::string();
  const std::string peak = bytes_text(report.peak_bytes) + " of activations predicted, ";
  if (report.extra_ms <= 0) {
    return budget + peak + "as fast as without checkpointing.";
  }
  const std::string slower = slowdown(report);
  const std::string time =
      slower.empty() ? extra_time(report) + " a step more" : slower + " slower";
  const std::string plain = report.plain_timeline.points.empty()
                                ? std::string()
                                : ", which would need " + bytes_text(report.plain_timeline.peak());
  return budget + peak + time + " than without checkpointing" + plain + ".";
}

std::string memory_header_html(const MemoryReport& report) {
  const std::string facts = fact_html("Model", report.model) + fact_html("Device", report.device);
  return element("header",
                 "",
                 text_element("p", "eyebrow", "Reprise memory plan") +
                     text_element("h1", "", report.title) +
                     text_element("p", "lead", plan_sentence(report)) +
                     (facts.empty() ? facts : element("dl", "class=\"facts\"", facts))) +
         "\n";
}

std::string memory_notes_html(const MemoryReport& report) {
  std::string items;
  for (const std::string& note : report.notes) {
    items += text_element("li", "", note);
  }
  return items.empty() ? items
                       : element("aside",
                                 "class=\"warnings\"",
                                 text_element("h2", "", "Notes") + element("ul", "", items)) +
                             "\n";
}

std::string memory_tiles_html(const MemoryReport& report) {
  std::string tiles;
  if (report.budget > 0) {
    tiles += tile_html("Budget", bytes_text(report.budget), "of activations");
  }
  tiles += tile_html("Predicted peak",
                     bytes_text(report.peak_bytes),
                     report.budget > 0 ? with_unit(static_cast<double>(report.peak_bytes) /
                                                       static_cast<double>(report.budget),
                                                   Unit::Share) +
                                             " of the budget"
                                       : "of activations");
  if (!report.measured_peaks.empty()) {
    const auto measured = static_cast<double>(measured_peak(report));
    const double error =
        report.peak_bytes > 0 ? 100 * (measured / static_cast<double>(report.peak_bytes) - 1) : 0;
    tiles += tile_html("Measured peak",
                       human_bytes(measured),
                       (error >= 0 ? "+" : "") + human_number(error, 2) + " % vs. predicted");
  }
  if (!report.plain_timeline.points.empty()) {
    tiles += tile_html("Without checkpointing",
                       bytes_text(report.plain_timeline.peak()),
                       human_seconds(report.plain_timeline.duration_ms() / 1000) + " a step");
  }
  const std::string slower = slowdown(report);
  tiles += slower.empty()
               ? tile_html("Recompute", extra_time(report), "a step")
               : tile_html("Slower by", slower, extra_time(report) + " of recompute a step");
  return element("div", "class=\"tiles\"", tiles) + "\n";
}

std::string memory_classes_html(const MemoryReport& report) {
  if (report.fixed.empty() && report.measured.empty()) {
    return {};
  }
  const bool is_measured = !report.measured.empty();
  const int64_t plain_peak = report.plain_timeline.peak();
  const auto with_plan =
      is_measured ? report.measured : with_activations(report, report.peak_bytes);
  const auto without = is_measured ? report.plain : with_activations(report, plain_peak);
  const bool has_plain = is_measured ? !without.empty() : plain_peak > 0;
  const int64_t longest = std::max(total_of(with_plan), has_plain ? total_of(without) : 0);
  std::string columns = bars_html(is_measured ? "With the plan, measured" : "With the plan",
                                  with_plan,
                                  is_measured ? "peak" : "at most",
                                  longest);
  if (has_plain) {
    columns += bars_html(is_measured ? "Without checkpointing, predicted" : "Without checkpointing",
                         without,
                         is_measured ? "peak" : "at most",
                         longest);
  }
  return section_html(
      "On the device at the peak",
      element("div", "class=\"card effect\"", element("div", "class=\"columns\"", columns)));
}

}  // namespace reprise::report
