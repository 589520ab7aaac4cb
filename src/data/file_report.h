// What became of the rows of one file: kept in its cache, for a run that does not read the file.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

/// Bad rows are counted, but only the first few are kept with their reasons.
inline constexpr size_t kBadRowsKept = 10;

struct FileReport {
  /// What there is to say about a row.
  struct Remark {
    int64_t line = 0;
    std::string reason;
  };

  int64_t rows = 0;
  std::map<std::string, int64_t> dropped;
  int64_t bad_row_count = 0;
  std::vector<Remark> bad_rows;
  int64_t hint_count = 0;  ///< rows with a hint, of which the first is kept
  Remark hint;
  std::string format;       ///< the convention; empty if no row had one
  int64_t format_line = 0;  ///< of the first row that follows it

  Json to_json() const;
  /// Nothing if this is not what to_json() gives.
  static std::optional<FileReport> from_json(const Json& json);
};

/// The convention that a row follows.
struct RowFormat {
  std::string place;  ///< of the row: "data.jsonl:17"
  std::string format;
};

/// Throws naming both rows if their conventions differ.
void check_same_format(const RowFormat& first, const RowFormat& later);

/// Adds a file's report to that of all files.
void add_report(const FileReport& file, const std::string& name, DatasetReport& total);

/// "3 rows; dropped 2: no label left; skipped 1 as bad, first data.jsonl:7: ..."
std::string what_became_of(const DatasetReport& report);

}  // namespace reprise::detail
