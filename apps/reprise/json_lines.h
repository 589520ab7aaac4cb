// JSON lines on standard input and output: one object per line; empty lines are skipped.
#pragma once

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <istream>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::app {

/// A line and its number, for error messages.
struct JsonLine {
  size_t number = 0;
  Json value;
};

class JsonLineReader {
 public:
  explicit JsonLineReader(std::istream& input) : input_(input) {}

  /// The next object; std::nullopt at the end. Throws if a line is not a JSON object.
  std::optional<JsonLine> next();

 private:
  std::istream& input_;
  size_t number_ = 0;
  std::string line_;
};

/// Writes one line to stdout. Bytes that are not UTF-8 become U+FFFD.
void print_json_line(const Json& value);

[[noreturn]] void throw_at_line(size_t number, const std::string& message);

/// Runs `work` and prepends the line number to the message of an exception.
template <class Work>
auto at_line(size_t number, Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    throw_at_line(number, error.what_without_backtrace());
  }
}

/// Converts every line with `read` and passes the items to `work`, `batch_size` at a time. For an
/// invalid line, throws after the items before it have been processed, so that a bad line does not
/// cost hours of results.
template <class Read, class Work>
void for_each_batch(std::istream& input, int64_t batch_size, Read&& read, Work&& work) {
  using Item = std::decay_t<std::invoke_result_t<Read&, const Json&>>;
  JsonLineReader lines(input);
  std::exception_ptr failure;
  bool has_more = true;
  while (has_more) {
    std::vector<Item> batch;
    try {
      while (has_more && std::ssize(batch) < batch_size) {
        const auto line = lines.next();
        has_more = line.has_value();
        if (has_more) {
          batch.push_back(at_line(line->number, [&] { return read(line->value); }));
        }
      }
    } catch (const c10::Error&) {
      failure = std::current_exception();
      has_more = false;
    }
    if (!batch.empty()) {
      work(std::move(batch));
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace reprise::app
