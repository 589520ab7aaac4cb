// JSON lines on standard input and output: one object a line, empty lines skipped.
#pragma once

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <istream>
#include <optional>
#include <string>

namespace reprise::app {

/// A line and where it stood, for messages about it.
struct JsonLine {
  size_t number = 0;
  Json value;
};

class JsonLineReader {
 public:
  explicit JsonLineReader(std::istream& input) : input_(input) {}

  /// The next object; nothing at the end. Throws naming the line if it is not a JSON object.
  std::optional<JsonLine> next();

 private:
  std::istream& input_;
  size_t number_ = 0;
  std::string line_;
};

/// Writes one line to stdout. Bytes that are not UTF-8 become U+FFFD.
void print_json_line(const Json& value);

[[noreturn]] void throw_at_line(size_t number, const std::string& message);

/// Runs `work`, and puts the line's number before the message of what it throws.
template <class Work>
auto at_line(size_t number, Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    throw_at_line(number, error.what_without_backtrace());
  }
}

}  // namespace reprise::app
