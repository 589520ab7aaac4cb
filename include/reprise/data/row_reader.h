// Rows of a data file, one after the other, without the file in memory.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace reprise {

struct Row {
  int64_t line = 0;  ///< from 1; in a JSON array, which element
  Json value;
};

/// A row that is not parsed yet.
struct RowText {
  int64_t line = 0;
  std::string text;

  /// Throws with the reason, and the line and column within the row, but without the file.
  REPRISE_API Json parse() const;
};

/// JSON Lines, or one JSON array whose elements are the rows; either compressed with gzip. Which it
/// is shows in the content, not in the name: an array begins with '['. A byte order mark, blank
/// lines and CRLF are taken.
class REPRISE_API RowReader {
 public:
  static constexpr size_t kLongestRow = size_t{64} << 20;

  /// Throws if the file cannot be read.
  explicit RowReader(const std::filesystem::path& path, size_t longest_row = kLongestRow);
  ~RowReader();
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) = delete;

  /// The next row, or nothing at the end. Throws "file:line: reason" if the row is not JSON (the
  /// rows after it can still be read) or if the file is broken (they cannot), see next_text().
  std::optional<Row> next();

  /// The same before it is parsed: throws only for what ends the file, which are a row longer than
  /// `longest_row` bytes, an array that is not closed or followed by something, and broken gzip.
  std::optional<RowText> next_text();

  /// How much of the file has been read, from 0 to 1.
  double fraction() const;

  /// "data.jsonl:17"
  std::string place(int64_t line) const;

 private:
  class Splitter;
  std::filesystem::path path_;
  std::unique_ptr<Splitter> rows_;
};

}  // namespace reprise
