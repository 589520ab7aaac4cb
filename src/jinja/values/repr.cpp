// Python's str() and repr().
#include "jinja/values/repr.h"

#include "jinja/values/unicode.h"
#include "jinja/values/value_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace reprise::jinja {
namespace {

class ReprWriter final : public ValueWriter {
 public:
  explicit ReprWriter(Runtime& runtime) : ValueWriter(runtime) {}

  void write(const Value& value) {
    const Runtime::Nesting nesting(runtime_);
    runtime_.step();
    if (value.is_text()) {
      const std::string quoted = quote(value.as_text());
      add(value.is_markup() ? "Markup(" + quoted + ")" : quoted);
    } else if (value.is_list()) {
      write_items(value, "[", "]");
    } else if (value.is_tuple()) {
      write_items(value, "(", value.items().size() == 1 ? ",)" : ")");
    } else if (value.is_dict()) {
      write_dict(value.as_dict());
    } else {
      add(scalar(value));
    }
  }

 private:
  void write_items(const Value& value, std::string_view open, std::string_view close) {
    add(open);
    bool first = true;
    for (const Value& item : value.items()) {
      add(std::exchange(first, false) ? "" : ", ");
      write(item);
    }
    add(close);
  }

  void write_dict(const Dict& dict) {
    add("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      add(std::exchange(first, false) ? "" : ", ");
      write(key);
      add(": ");
      write(value);
    }
    add("}");
  }

  std::string scalar(const Value& value) {
    if (value.is_none()) {
      return "None";
    }
    if (value.is_undefined()) {
      return "Undefined";
    }
    if (value.is_bool()) {
      return value.as_bool() ? "True" : "False";
    }
    if (value.is_int()) {
      return std::to_string(value.as_int());
    }
    if (value.is_float()) {
      return float_repr(value.as_float());
    }
    if (value.is_range()) {
      const Range& range = value.as_range();
      return "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop) +
             (range.step == 1 ? ")" : ", " + std::to_string(range.step) + ")");
    }
    return value.as_object().repr(runtime_);
  }
};

void append_escaped(std::string& result, int32_t code_point) {
  std::array<char, 12> buffer{};
  const char* format = code_point < 0x100     ? "\\x%02x"
                       : code_point < 0x10000 ? "\\u%04x"
                                              : "\\U%08x";
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(code_point));
  result += buffer.data();
}

}  // namespace

std::string to_text(Runtime& runtime, const Value& value) {
  if (value.is_text()) {
    return value.as_text();
  }
  return value.is_undefined() ? std::string() : to_repr(runtime, value);
}

std::string to_repr(Runtime& runtime, const Value& value) {
  ReprWriter writer(runtime);
  writer.write(value);
  return writer.take();
}

std::string quote(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char mark = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result(1, mark);
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    const int32_t code_point = next_code_point(text, position);
    if (code_point == mark || code_point == '\\') {
      result += '\\';
      result += static_cast<char>(code_point);
    } else if (code_point == '\n') {
      result += "\\n";
    } else if (code_point == '\r') {
      result += "\\r";
    } else if (code_point == '\t') {
      result += "\\t";
    } else if (is_printable(code_point)) {
      result += text.substr(start, position - start);
    } else {
      append_escaped(result, code_point);
    }
  }
  result += mark;
  return result;
}

std::string float_repr(double number) {
  if (std::isnan(number)) {
    return "nan";
  }
  if (std::isinf(number)) {
    return number > 0 ? "inf" : "-inf";
  }
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  const std::string_view shortest(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t mark = shortest.find('e');
  int exponent = 0;
  const size_t sign = shortest[mark + 1] == '+' ? 1 : 0;
  std::from_chars(shortest.data() + mark + 1 + sign, end.ptr, exponent);
  std::string digits(shortest.substr(0, mark));
  const std::string minus = digits[0] == '-' ? "-" : "";
  digits.erase(0, minus.size());
  if (exponent < -4 || exponent >= 16) {
    std::snprintf(
        buffer.data(), buffer.size(), "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return minus + digits + buffer.data();
  }
  if (digits.size() > 1) {
    digits.erase(1, 1);
  }
  if (exponent < 0) {
    return minus + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return minus + digits + std::string(whole - digits.size(), '0') + ".0";
  }
  return minus + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace reprise::jinja
