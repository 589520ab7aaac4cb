// RowReader: finds the end of each row in a buffer. An element of an array ends at the comma or
// bracket outside of strings and nested values. The row itself is left to the parser, so an invalid
// row does not affect the others.
#include "data/files/byte_source.h"

#include "data/files/row_reader.h"

#include <reprise/io/file_format.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::data {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kLeastBufferBytes = 512;  // for short rows: to recognise formats of others
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kMostValues = 4'000'000;  // of a row: some hundred megabytes
constexpr std::string_view kSpace = " \t\r\n";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

/// Tracks the position within an element of an array.
class Nesting {
 public:
  /// Consumes `c`; true if it ends the element.
  bool ends_at(char c) {
    if (in_string_) {
      in_string_ = is_escaped_ || c != '"';
      is_escaped_ = !is_escaped_ && c == '\\';
      return false;
    }
    if (depth_ == 0 && (c == ',' || c == ']')) {
      return true;
    }
    in_string_ = c == '"';
    if (c == '[' || c == '{') {
      ++depth_;
    } else if (c == ']' || c == '}') {
      depth_ = std::max<int64_t>(depth_ - 1, 0);
    }
    return false;
  }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
};

}  // namespace

/// Splits the file into rows.
class RowReader::Splitter {
 public:
  Splitter(const std::filesystem::path& path, size_t longest_row)
      : name_(path.string()), longest_row_(longest_row), source_(open_bytes(path)) {
    buffer_.resize(std::clamp(longest_row, kLeastBufferBytes, kBufferBytes));
    skip_byte_order_mark();
    const auto foreign = foreign_rows({buffer_.data(), end_}, path);
    TORCH_CHECK(foreign.empty(), "[data] ", name_, ": ", foreign);
    // Count blank lines before the first row, so that line numbers match an editor's.
    while (peek() && is_blank({&buffer_[begin_], 1})) {
      line_ += buffer_[begin_++] == '\n' ? 1 : 0;
    }
    is_array_ = peek() && buffer_[begin_] == '[';
    if (is_array_) {
      ++begin_;
      line_ = 0;
    }
  }

  std::optional<RowText> next() { return is_array_ ? next_element() : next_line(); }
  double fraction() const { return source_->fraction(); }

 private:
  std::optional<RowText> next_line() {
    while (peek()) {
      RowText row{.line = ++line_, .text = {}};
      bool ended = false;
      while (!ended && peek()) {
        const std::string_view rest(&buffer_[begin_], end_ - begin_);
        const size_t newline = rest.find('\n');
        ended = newline != std::string_view::npos;
        append(row, rest.substr(0, newline));
        begin_ += ended ? newline + 1 : rest.size();
      }
      if (!is_blank(row.text)) {
        return row;
      }
    }
    return std::nullopt;
  }

  std::optional<RowText> next_element() {
    if (is_closed_) {
      return std::nullopt;
    }
    RowText row{.line = ++line_, .text = {}};
    Nesting nesting;
    while (peek()) {
      const auto first = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
      const auto last = buffer_.begin() + static_cast<std::ptrdiff_t>(end_);
      const auto stop = std::find_if(first, last, [&](char c) { return nesting.ends_at(c); });
      append(row, std::string_view(&*first, static_cast<size_t>(stop - first)));
      begin_ += static_cast<size_t>(stop - first);
      if (stop != last) {
        ++begin_;
        return end_element(std::move(row), *stop);
      }
    }
    TORCH_CHECK(false,
                "[data] ",
                name_,
                ":",
                row.line,
                ": the file ends inside of the array; expected ',' or ']'");
  }

  std::optional<RowText> end_element(RowText row, char mark) {
    const bool is_empty_array = mark == ']' && row.line == 1;
    is_closed_ = mark == ']';
    if (is_closed_) {
      expect_end();
    }
    if (!is_blank(row.text)) {
      return row;
    }
    TORCH_CHECK(is_empty_array,
                "[data] ",
                name_,
                ":",
                row.line,
                ": expected an element of the array, found '",
                mark,
                "'");
    return std::nullopt;
  }

  void expect_end() {
    while (peek()) {
      TORCH_CHECK(is_blank({&buffer_[begin_], 1}),
                  "[data] ",
                  name_,
                  ": text after the end of the array; for JSON Lines, a row cannot be an array");
      ++begin_;
    }
  }

  void append(RowText& row, std::string_view part) const {
    TORCH_CHECK(part.size() <= longest_row_ - row.text.size(),
                "[data] ",
                name_,
                ":",
                row.line,
                ": expected rows of at most ",
                longest_row_,
                " bytes, found a longer one; is this JSON Lines or a JSON array?");
    row.text += part;
  }

  void skip_byte_order_mark() {
    // A decompressor may give the first bytes one by one.
    constexpr size_t kEnough = 16;  // to recognise a format
    while (end_ < kEnough && read_more()) {
    }
    if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) {
      begin_ = kByteOrderMark.size();
    }
  }

  bool read_more() {
    const size_t count = source_->read(std::span(buffer_).subspan(end_));
    end_ += count;
    return count > 0;
  }

  /// Whether there is a byte at `begin_`.
  bool peek() {
    if (begin_ < end_) {
      return true;
    }
    begin_ = end_ = 0;
    return read_more();
  }

  std::string name_;
  size_t longest_row_;
  std::unique_ptr<data::ByteSource> source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not used yet, in the buffer
  size_t end_ = 0;
  int64_t line_ = 0;  // of the last row
  bool is_array_ = false;
  bool is_closed_ = false;
};

Json RowText::parse() const {
  return parse_json(text, "row", {.max_bytes = text.size(), .max_values = kMostValues});
}

RowReader::RowReader(const std::filesystem::path& path, size_t longest_row)
    : path_(path), rows_(std::make_unique<Splitter>(path, longest_row)) {}

RowReader::~RowReader() = default;
RowReader::RowReader(RowReader&&) noexcept = default;

std::optional<RowText> RowReader::next_text() {
  return rows_->next();
}

double RowReader::fraction() const {
  return rows_->fraction();
}

std::string RowReader::location(int64_t line) const {
  return path_.string() + ":" + std::to_string(line);
}

}  // namespace reprise::data
