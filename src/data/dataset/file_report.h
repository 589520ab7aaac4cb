// Statistics about the rows of one file, stored in its cache for runs that do not read the file.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprise::data {

/// All bad rows are counted, but only the first few are stored with their reasons.
inline constexpr size_t kBadRowsKept = 10;

struct FileReport {
  /// A message about a row.
  struct Remark {
    int64_t line = 0;
    std::string reason;
  };

  int64_t rows = 0;
  std::map<std::string, int64_t> dropped;
  int64_t bad_row_count = 0;
  std::vector<Remark> bad_rows;
  int64_t hint_count = 0;  ///< rows with a hint; only the first hint is stored
  Remark hint;
  int64_t ends_with_pad_count = 0;  ///< rows with TokenizedRow::ends_with_pad
  LengthReport lengths;
  std::string format;       ///< the convention; empty if no row had one
  int64_t format_line = 0;  ///< of the first row that follows it

  Json to_json() const;
  /// std::nullopt if `json` is not from to_json().
  static std::optional<FileReport> from_json(const Json& json);
};

/// The convention that a row follows.
struct RowFormat {
  std::string location;  ///< of the row: "data.jsonl:17"
  std::string format;
};

/// Throws if the conventions differ, and names both rows.
void check_same_format(const RowFormat& first, const RowFormat& later);

/// Adds the report of a file to the total.
void add_report(const FileReport& file, const std::string& name, DatasetReport& total);

/// "3 rows; dropped 2: no label left; skipped 1 as bad, first data.jsonl:7: ..."
std::string summarize(const DatasetReport& report);

}  // namespace reprise::data
