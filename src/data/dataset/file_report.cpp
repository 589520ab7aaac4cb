// File reports as JSON, and as text for the user.
#include "data/dataset/file_report.h"

#include <c10/util/Exception.h>

#include <utility>

namespace reprise::data {
namespace {

Json json_of(const FileReport::Remark& remark) {
  return {{"line", remark.line}, {"reason", remark.reason}};
}

FileReport::Remark remark_in(const Json& json) {
  return {json.at("line").get<int64_t>(), json.at("reason").get<std::string>()};
}

std::string location_and_reason(const std::string& file, const FileReport::Remark& remark) {
  return file + ":" + std::to_string(remark.line) + ": " + remark.reason;
}

}  // namespace

Json FileReport::to_json() const {
  Json bad = Json::array();
  for (const Remark& row : bad_rows) {
    bad.push_back(json_of(row));
  }
  return {{"rows", rows},
          {"dropped", dropped},
          {"bad_row_count", bad_row_count},
          {"bad_rows", std::move(bad)},
          {"hint_count", hint_count},
          {"hint", json_of(hint)},
          {"ends_with_pad_count", ends_with_pad_count},
          {"lengths", lengths.to_json()},
          {"format", format},
          {"format_line", format_line}};
}

std::optional<FileReport> FileReport::from_json(const Json& json) {
  try {
    FileReport report{.rows = json.at("rows").get<int64_t>(),
                      .dropped = json.at("dropped").get<std::map<std::string, int64_t>>(),
                      .bad_row_count = json.at("bad_row_count").get<int64_t>(),
                      .bad_rows = {},
                      .hint_count = json.at("hint_count").get<int64_t>(),
                      .hint = remark_in(json.at("hint")),
                      .ends_with_pad_count = json.at("ends_with_pad_count").get<int64_t>(),
                      .lengths = LengthReport::from_json(json.at("lengths")),
                      .format = json.at("format").get<std::string>(),
                      .format_line = json.at("format_line").get<int64_t>()};
    for (const Json& row : json.at("bad_rows")) {
      report.bad_rows.push_back(remark_in(row));
    }
    return report;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void check_same_format(const RowFormat& first, const RowFormat& later) {
  TORCH_CHECK(first.format == later.format,
              "[data] ",
              later.location,
              ": mixed conventions: expected \"",
              first.format,
              "\" as in ",
              first.location,
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
  for (const FileReport::Remark& row : file.bad_rows) {
    if (total.bad_rows.size() < kBadRowsKept) {
      total.bad_rows.push_back(location_and_reason(name, row));
    }
  }
  if (file.hint_count > 0 && total.hint_count == 0) {
    total.hint = location_and_reason(name, file.hint);
  }
  total.hint_count += file.hint_count;
  total.ends_with_pad_count += file.ends_with_pad_count;
  total.lengths.add(file.lengths);
  if (total.format.empty()) {
    total.format = file.format;
  }
}

std::string summarize(const DatasetReport& report) {
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

}  // namespace reprise::data
