#include "reprise/json_lines.h"

#include <reprise/io/file_format.h>

#include <c10/util/Exception.h>

#include <iostream>
#include <string>

namespace reprise::app {

namespace {

// parse_json reports errors at "SOURCE:1:COLUMN", as if the line were a file.
Json parse_line(const std::string& text, size_t number) {
  const std::string source = "line " + std::to_string(number);
  try {
    return parse_json(text, source);
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    const std::string prefix = "[json] " + source + ":1:";
    if (!message.starts_with(prefix)) {
      throw;
    }
    throw_at_line(number, "column " + message.substr(prefix.size()));
  }
}

}  // namespace

std::optional<JsonLine> JsonLineReader::next() {
  while (std::getline(input_, line_)) {
    ++number_;
    if (line_.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const auto foreign = number_ == 1 ? foreign_rows(line_, "") : "";
    TORCH_CHECK(foreign.empty(), "the input: ", foreign);
    JsonLine result{number_, parse_line(line_, number_)};
    if (!result.value.is_object()) {
      throw_at_line(number_, "expected a JSON object, found " + kind_of(result.value));
    }
    return result;
  }
  return std::nullopt;
}

void print_json_line(const Json& value) {
  std::cout << value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) << "\n";
}

void throw_at_line(size_t number, const std::string& message) {
  TORCH_CHECK(false, "line ", number, ": ", message);
}

}  // namespace reprise::app
