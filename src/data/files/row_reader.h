// Reads the rows of a data file one by one, without holding the file in memory.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace reprise::data {

/// A row that has not been parsed yet.
struct RowText {
  int64_t line = 0;  ///< from 1; in a JSON array, the number of the element
  std::string text;

  /// Throws with the reason and the line and column within the row; the file is not named.
  REPRISE_API Json parse() const;
};

/// Reads JSON Lines, or one JSON array whose elements are the rows, either of them optionally
/// gzipped. The format is recognised by content, not by name: an array begins with '['. A byte
/// order mark, blank lines and CRLF are accepted.
class REPRISE_API RowReader {
 public:
  static constexpr size_t kLongestRow = size_t{64} << 20;

  /// Throws if the file cannot be read.
  explicit RowReader(const std::filesystem::path& path, size_t longest_row = kLongestRow);
  ~RowReader();
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) = delete;

  /// The next row, or std::nullopt at the end. Throws "file:line: reason" if no further row can be
  /// read: a row longer than `longest_row` bytes, an array that is not closed or is followed by
  /// other text, broken gzip.
  std::optional<RowText> next_text();

  /// How much of the file has been read, from 0 to 1.
  double fraction() const;

  /// "data.jsonl:17"
  std::string location(int64_t line) const;

 private:
  class Splitter;
  std::filesystem::path path_;
  std::unique_ptr<Splitter> rows_;
};

}  // namespace reprise::data
