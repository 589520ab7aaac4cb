// "{}".format(values): replacement fields and their format specifications.
#include "jinja/builtins/format.h"
#include "jinja/values/attributes.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"

#include <algorithm>

namespace reprise::jinja {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

FormatSpec parse_spec(std::string_view text) {
  static constexpr std::string_view kAlign = "<>^=";
  FormatSpec spec;
  size_t position = 0;
  size_t after_fill = 0;
  if (!text.empty()) {
    next_code_point(text, after_fill);
  }
  if (after_fill < text.size() && kAlign.find(text[after_fill]) != std::string_view::npos) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    position = after_fill + 1;
  } else if (!text.empty() && kAlign.find(text[0]) != std::string_view::npos) {
    spec.align = text[0];
    position = 1;
  }
  const auto at = [&](std::string_view set) {
    return position < text.size() && set.find(text[position]) != std::string_view::npos;
  };
  if (at("+- ")) {
    spec.sign = text[position++];
  }
  if (at("#")) {
    spec.alternate = true;
    ++position;
  }
  if (at("0")) {
    spec.fill = spec.align == '\0' ? "0" : spec.fill;
    spec.align = spec.align == '\0' ? '=' : spec.align;
    ++position;
  }
  spec.width = read_format_digits(text, position);
  if (at(",_")) {
    spec.grouping = text[position++];
  }
  if (at(".")) {
    ++position;
    if (!at("0123456789")) {
      throw Failure("Format specifier missing precision");
    }
    spec.precision = read_format_digits(text, position);
  }
  if (position < text.size()) {
    spec.type = text[position++];
  }
  if (position < text.size()) {
    throw Failure("Invalid format specifier " + quote(text));
  }
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  TextBuilder run(std::string_view format, int levels) {
    if (levels < 0) {
      throw Failure("Max string recursion exceeded");
    }
    TextBuilder result(runtime_);
    for (size_t i = 0; i < format.size(); ++i) {
      runtime_.step();
      const char c = format[i];
      const bool is_doubled = i + 1 < format.size() && format[i + 1] == c;
      if ((c == '{' || c == '}') && is_doubled) {
        result.add(c);
        ++i;
      } else if (c == '}') {
        throw Failure("Single '}' encountered in format string");
      } else if (c == '{') {
        const size_t end = closing_brace(format, i);
        field(result, format.substr(i + 1, end - i - 1), levels);
        i = end;
      } else {
        result.add(c);
      }
    }
    return result;
  }

 private:
  static size_t closing_brace(std::string_view format, size_t open) {
    int depth = 0;
    for (size_t i = open; i < format.size(); ++i) {
      depth += format[i] == '{' ? 1 : format[i] == '}' ? -1 : 0;
      if (depth == 0) {
        return i;
      }
    }
    throw Failure("expected '}' before end of string");
  }

  void field(TextBuilder& out, std::string_view text, int levels) {
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = lookup(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        throw Failure("expected ':' after conversion specifier");
      }
      TextBuilder converted(runtime_);
      if (rest[1] == 'r' || rest[1] == 'a') {
        write_repr(runtime_, converted, value);
      } else {
        write_text(runtime_, converted, value);
      }
      value = runtime_.text(std::move(converted));
      rest.remove_prefix(2);
    }
    const TextBuilder spec = rest.empty() ? TextBuilder(runtime_) : run(rest.substr(1), levels - 1);
    if (spec.size() == 0) {
      return write_text(runtime_, out, value);
    }
    const bool takes_spec = value.is_text() || value.is_number();
    if (!takes_spec) {
      throw Failure("unsupported format string passed to " + value.type_name() + ".__format__");
    }
    const FormatSpec parsed = parse_spec(spec.view());
    if (value.is_text() && parsed.align == '=') {
      FormatSpec left = parsed;
      left.align = parsed.fill == "0" ? '<' : '=';
      if (left.align == '=') {
        throw Failure("'=' alignment not allowed in string format specifier");
      }
      return format_value(runtime_, out, value, left);
    }
    format_value(runtime_, out, value, parsed);
  }

  Value argument(std::string_view name) {
    const bool is_number = std::all_of(name.begin(), name.end(), is_ascii_digit);
    if (!is_number) {
      for (const auto& [key, value] : arguments_.keyword) {
        runtime_.step();
        if (is_same_text(runtime_, key, name)) {
          return value;
        }
      }
      throw Failure("format has no value for the key " + quote(name));
    }
    size_t position = 0;
    const auto index =
        name.empty() ? next_++ : static_cast<size_t>(read_format_digits(name, position));
    if (index >= arguments_.positional.size()) {
      throw Failure("Replacement index " + std::to_string(index) +
                    " out of range for positional args tuple");
    }
    return arguments_.positional[index];
  }

  // name.attribute[item]
  Value lookup(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool is_attribute = path[0] == '.';
      const size_t stop =
          is_attribute ? std::min(path.find_first_of(".[", 1), path.size()) : path.find(']');
      if (stop == std::string_view::npos || stop < 2) {
        throw Failure("Empty attribute in format string");
      }
      runtime_.step();
      const std::string_view name = path.substr(1, stop - 1);
      const bool is_number = std::all_of(name.begin(), name.end(), is_ascii_digit);
      size_t position = 0;
      if (is_attribute) {
        value = get_attribute(runtime_, value, name);
      } else {
        value =
            get_item(runtime_,
                     value,
                     is_number ? Value(read_format_digits(name, position)) : runtime_.text(name));
      }
      path.remove_prefix(stop + (is_attribute ? 0 : 1));
    }
    return value;
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

TextBuilder format_braces(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  return BraceFormatter(runtime, arguments).run(format, 2);
}

}  // namespace reprise::jinja
