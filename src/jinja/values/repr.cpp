// Python's str() and repr().
#include "jinja/values/repr.h"

#include "jinja/values/unicode.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace reprise::jinja {
namespace {

// Adds an escape such as \\x1b.
template <class Out>
void add_escaped(Out& out, int32_t code_point) {
  std::array<char, 12> buffer{};
  const char* format = code_point < 0x100     ? "\\x%02x"
                       : code_point < 0x10000 ? "\\u%04x"
                                              : "\\U%08x";
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(code_point));
  out.add(std::string_view(buffer.data()));
}

template <class Out>
void write_quoted(Out& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char mark = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.add(mark);
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    const int32_t code_point = next_code_point(text, position);
    if (code_point == mark || code_point == '\\') {
      out.add('\\');
      out.add(static_cast<char>(code_point));
    } else if (code_point == '\n') {
      out.add("\\n");
    } else if (code_point == '\r') {
      out.add("\\r");
    } else if (code_point == '\t') {
      out.add("\\t");
    } else if (is_printable(code_point)) {
      out.add(text.substr(start, position - start));
    } else {
      add_escaped(out, code_point);
    }
  }
  out.add(mark);
}

class ReprWriter {
 public:
  ReprWriter(Runtime& runtime, TextBuilder& out) : runtime_(runtime), out_(out) {}

  void write(const Value& value) {
    const Budget::Nesting nesting(runtime_);
    runtime_.step();
    if (value.is_text()) {
      out_.add(value.is_markup() ? "Markup(" : "");
      write_quoted(out_, value.as_text(runtime_));
      out_.add(value.is_markup() ? ")" : "");
    } else if (value.is_list()) {
      write_items(value, "[", "]");
    } else if (value.is_tuple()) {
      write_items(value, "(", value.item_count() == 1 ? ",)" : ")");
    } else if (value.is_dict()) {
      write_dict(value.as_dict());
    } else if (value.is_object()) {
      value.as_object().write_repr(runtime_, out_);
    } else {
      out_.add(scalar(value));
    }
  }

 private:
  void write_items(const Value& value, std::string_view open, std::string_view close) {
    out_.add(open);
    for (size_t i = 0; i < value.item_count(); ++i) {
      out_.add(i == 0 ? "" : ", ");
      write(value.item_at(i));
    }
    out_.add(close);
  }

  void write_dict(const Dict& dict) {
    out_.add("{");
    for (size_t i = 0; i < dict.size(); ++i) {
      out_.add(i == 0 ? "" : ", ");
      write(dict.entry_at(i).first);
      out_.add(": ");
      write(dict.entry_at(i).second);
    }
    out_.add("}");
  }

  static std::string scalar(const Value& value) {
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
    const Range& range = value.as_range();
    return "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop) +
           (range.step == 1 ? ")" : ", " + std::to_string(range.step) + ")");
  }

  Runtime& runtime_;
  TextBuilder& out_;
};

/// A short text for a message, which no budget has to pay for.
struct MessageText {
  std::string text;
  void add(std::string_view more) { text += more; }
  void add(char c) { text += c; }
};

}  // namespace

void write_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  ReprWriter(runtime, out).write(value);
}

void write_text(Runtime& runtime, TextBuilder& out, const Value& value) {
  if (value.is_text()) {
    out.add(value.as_text(runtime));
  } else if (!value.is_undefined()) {
    write_repr(runtime, out, value);
  }
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.is_text()) {
    return value;
  }
  TextBuilder out(runtime);
  write_text(runtime, out, value);
  return runtime.text(std::move(out));
}

std::string quote(std::string_view text) {
  constexpr size_t kShown = 200;
  const std::string_view shown =
      text.substr(0, byte_offset(text.substr(0, 4 * kShown), kShown));  // whole characters
  MessageText out;
  write_quoted(out, shown);
  return out.text + (shown.size() < text.size() ? "..." : "");
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
