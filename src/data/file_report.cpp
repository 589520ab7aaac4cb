// Reports of files: as JSON, and as text for the user.
#include "data/file_report.h"

#include <c10/util/Exception.h>

#include <utility>

namespace reprise::detail {

Json FileReport::to_json() const {
  Json bad = Json::array();
  for (const BadRow& row : bad_rows) {
    bad.push_back({{"line", row.line}, {"reason", row.reason}});
  }
  return {{"rows", rows},
          {"dropped", dropped},
          {"bad_row_count", bad_row_count},
          {"bad_rows", std::move(bad)},
          {"format", format},
          {"format_line", format_line}};
}

std::optional<FileReport> FileReport::from_json(const Json& json) {
  try {
    FileReport report{.rows = json.at("rows").get<int64_t>(),
                      .dropped = json.at("dropped").get<std::map<std::string, int64_t>>(),
                      .bad_row_count = json.at("bad_row_count").get<int64_t>(),
                      .bad_rows = {},
                      .format = json.at("format").get<std::string>(),
                      .format_line = json.at("format_line").get<int64_t>()};
    for (const Json& row : json.at("bad_rows")) {
      report.bad_rows.push_back(
          {row.at("line").get<int64_t>(), row.at("reason").get<std::string>()});
    }
    return report;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void check_same_format(const RowFormat& first, const RowFormat& later) {
  TORCH_CHECK(first.format == later.format,
              "[data] ",
              later.place,
              ": mixed conventions: expected \"",
              first.format,
              "\" as in ",
              first.place,
              ", found \"",
              later.format,
              "\"; bring all rows to one of them");
}

void add_report(const FileReport& file, const std::string& name, DatasetReport& total) {
  total.rows += file.rows;
  total.bad_row_count += file.bad_row_count;
  for (const auto& [reason, count] : file.dropped) {
    total.dropped[reason] += count;
  }
  for (const FileReport::BadRow& row : file.bad_rows) {
    if (total.bad_rows.size() < kBadRowsKept) {
      total.bad_rows.push_back(name + ":" + std::to_string(row.line) + ": " + row.reason);
    }
  }
  if (total.format.empty()) {
    total.format = file.format;
  }
}

std::string what_became_of(const DatasetReport& report) {
  std::string text = std::to_string(report.rows) + " rows";
  for (const auto& [reason, count] : report.dropped) {
    text += "; dropped " + std::to_string(count) + ": " + reason;
  }
  if (report.bad_row_count > 0) {
    text += "; skipped " + std::to_string(report.bad_row_count) + " as bad, first " +
            report.bad_rows.front();
  }
  return text;
}

}  // namespace reprise::detail
