// A table of what the plan does with every operator result, with a heading row for each group of
// similar regions. Results without cost are counted, not listed.
#include "report/charts/axis.h"
#include "report/page/html.h"
#include "report/page/memory_sections.h"
#include "report/page/parts.h"

#include <reprise/report/units.h>

#include <array>

namespace reprise::report {
namespace {

struct ChoiceLook {
  const char* name;
  int color;  // the colour of the same bytes in the timeline
};

ChoiceLook look_of(RowChoice choice) {
  constexpr std::array<ChoiceLook, 6> kLooks = {{{"plain", 2},
                                                 {"kept", 2},
                                                 {"offloaded", 5},
                                                 {"compressed", 3},
                                                 {"computed again", 4},
                                                 {"nothing to do", 6}}};
  return kLooks.at(static_cast<size_t>(choice));
}

std::string choice_html(const ChoiceLook& look) {
  return element("td",
                 "class=\"choice s" + std::to_string(look.color) + "\"",
                 element("i", "", "") + escaped(look.name));
}

/// Up to three decimals, since most results take far less than a millisecond.
std::string ms_text(double ms) {
  return ms < 1000 ? human_number(ms, 3) + " ms" : human_seconds(ms / 1000);
}

std::string cells_html(const PlanRow& row) {
  const std::string sign = row.choice == RowChoice::Recompute ? "+" : "−";
  const bool is_mixed = row.op.empty() && row.choice == RowChoice::Recompute && row.bytes > 0;
  return choice_html(is_mixed ? ChoiceLook{"kept in part", 2} : look_of(row.choice)) +
         text_element(
             "td", "number", row.bytes > 0 ? human_bytes(static_cast<double>(row.bytes)) : "–") +
         text_element("td", "number", row.ms > 0 ? sign + ms_text(row.ms) : "–") +
         text_element("td", "", row.why);
}

std::string row_html(const PlanRow& row) {
  if (!row.op.empty()) {
    return element("tr", "", text_element("td", "name", row.op) + cells_html(row));
  }
  const std::string count =
      row.region_count > 1 ? " (" + std::to_string(row.region_count) + " alike)" : "";
  return element(
      "tr", "class=\"whole\"", text_element("th", "", row.regions + count) + cells_html(row));
}

std::string rest_html(size_t count) {
  return count == 0
             ? std::string()
             : element("tr",
                       "",
                       text_element("td", "name", std::to_string(count) + " more") +
                           choice_html(look_of(RowChoice::Nothing)) +
                           text_element("td", "number", "–") + text_element("td", "number", "–") +
                           text_element("td", "", "views, and what backward does without"));
}

}  // namespace

std::string memory_plan_html(const MemoryReport& report) {
  std::string body;
  size_t rest = 0;
  for (const PlanRow& row : report.rows) {
    if (row.op.empty()) {
      body += rest_html(rest);
      rest = 0;
    }
    if (row.choice == RowChoice::Nothing) {
      ++rest;
    } else {
      body += row_html(row);
    }
  }
  body += rest_html(rest);
  if (report.rows.empty()) {
    return {};
  }
  const std::string head =
      text_element("th", "", "Regions and results") + text_element("th", "", "Decision") +
      text_element("th", "number", "Bytes") + text_element("th", "number", "Recompute") +
      text_element("th", "", "Why");
  return section_html(
      "The plan",
      element("div",
              "class=\"plan\"",
              text_element("p",
                           "note",
                           "Bytes and times are for one region of a run. Recompute: "
                           "+ is paid, − is saved.") +
                  table_html(head, body)));
}

}  // namespace reprise::report
