// The summary and the configuration, as tables of flattened JSON.
#include "report/charts/axis.h"
#include "report/charts/other_charts.h"
#include "report/charts/series.h"
#include "report/page/html.h"
#include "report/page/parts.h"
#include "report/page/sections.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace reprise::report {
namespace {

using Rows = std::vector<std::pair<std::string, Json>>;

/// {"a": {"b": 1}} becomes a.b: 1. Lists are not flattened.
void flatten(const Json& value, const std::string& name, Rows& rows) {
  if (!value.is_object()) {
    rows.emplace_back(name, value);
    return;
  }
  for (const auto& [key, inner] : value.items()) {
    flatten(inner, name.empty() ? key : name + "." + key, rows);
  }
}

/// Formats bytes and times by the suffix of the key; other values are unchanged.
std::string value_text(const std::string& key, const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (key.ends_with("_bytes")) {
      return human_bytes(number);
    }
    if (key.ends_with("_ms")) {
      return human_seconds(number / 1000);
    }
    if (key.ends_with("_seconds")) {
      return human_seconds(number);
    }
    return value.is_number_integer() ? value.dump() : human_number(number, 6);
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* find_row(const Rows& rows, const std::string& key) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == key; });
  return found == rows.end() ? nullptr : &found->second;
}

/// The flattened rows of each run, without warnings, which are shown at the top.
std::vector<Rows> columns_of(const Runs& runs, Json ReportRun::*member) {
  std::vector<Rows> columns;
  for (const ReportRun& run : runs) {
    Rows rows;
    flatten(run.*member, "", rows);
    std::erase_if(rows,
                  [](const auto& row) { return row.first.empty() || row.first == "warnings"; });
    columns.push_back(std::move(rows));
  }
  return columns;
}

/// One wide cell if all runs have the same value, else one cell per run.
std::string cells_html(const std::string& key, const std::vector<Rows>& columns) {
  std::vector<std::string> texts;
  for (const Rows& rows : columns) {
    const Json* const value = find_row(rows, key);
    texts.push_back(value == nullptr ? "–" : value_text(key, *value));
  }
  if (std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end()) {
    return element(
        "td", "colspan=\"" + std::to_string(texts.size()) + "\"", escaped(texts.front()));
  }
  std::string cells;
  for (const std::string& text : texts) {
    cells += text_element("td", "", text);
  }
  return cells;
}

/// One row per key of any run, one column per run.
std::string json_table(const Runs& runs, Json ReportRun::*member) {
  const std::vector<Rows> columns = columns_of(runs, member);
  std::set<std::string> seen;
  std::string body;
  for (const Rows& rows : columns) {
    for (const auto& row : rows) {
      if (seen.insert(row.first).second) {
        body += element(
            "tr", "", text_element("th", "name", row.first) + cells_html(row.first, columns));
      }
    }
  }
  std::string head = text_element("th", "", "Key");
  for (const ReportRun& run : runs) {
    head += text_element("th", "", runs.size() == 1 ? "Value" : run.name);
  }
  return body.empty() ? body : table_html(head, body);
}

/// First, last, lowest and highest values of a single run. Several runs have the headline table.
std::string metrics_table(const ReportRun& run) {
  std::string body;
  for (const std::string& key : numeric_keys(run.steps)) {
    const Series series = series_of(run.steps, key);
    if (series.points.empty() || key == "step") {
      continue;
    }
    const auto [low, high] = std::minmax_element(
        series.points.begin(), series.points.end(), [](const Point& a, const Point& b) {
          return a.value < b.value;
        });
    std::string row = text_element("th", "name", key);
    for (const double value :
         {series.points.front().value, series.points.back().value, low->value, high->value}) {
      row += text_element("td", "number", with_unit(value, unit_of(key)));
    }
    body += element("tr", "", row);
  }
  std::string head = text_element("th", "", "Metric");
  for (const char* const name : {"First", "Last", "Lowest", "Highest"}) {
    head += text_element("th", "number", name);
  }
  return body.empty() ? body : table_html(head, body);
}

}  // namespace

std::string label_of(const std::string& key) {
  std::string label = key;
  std::replace(label.begin(), label.end(), '_', ' ');
  if (!label.empty() && label.front() >= 'a' && label.front() <= 'z') {
    label.front() = static_cast<char>(label.front() - 'a' + 'A');
  }
  return label;
}

std::string tables_html(const Runs& runs) {
  const std::string metrics = runs.size() == 1 ? metrics_table(runs.front()) : std::string();
  return section_html("Final figures", json_table(runs, &ReportRun::summary)) +
         section_html("Metrics", metrics) +
         section_html("Configuration", json_table(runs, &ReportRun::configuration));
}

}  // namespace reprise::report
