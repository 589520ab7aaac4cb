// Filters that return text.
#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/format.h"
#include "jinja/builtins/string_methods.h"
#include "jinja/values/json.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <array>

namespace reprise::jinja {
namespace {

template <std::string (*transform)(std::string_view)>
Value transform_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("filter", arguments);
  const std::string text = to_text(runtime, subject);
  runtime.charge(text.size(), 4);
  return runtime.text(transform(text));
}

// Upper case after spaces and opening brackets, lower case elsewhere. Differs from str.title().
std::string title_words(std::string_view text) {
  std::string result;
  std::string word;
  const auto finish = [&] {
    size_t first = 0;
    if (!word.empty()) {
      next_code_point(word, first);
      result += to_upper(std::string_view(word).substr(0, first));
      result += to_lower(std::string_view(word).substr(first));
      word.clear();
    }
  };
  for (const int32_t c : decode(text)) {
    if (is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      finish();
      append_code_point(result, c);
    } else {
      append_code_point(word, c);
    }
  }
  finish();
  return result;
}

Value trim(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("trim", arguments, {"chars"});
  const auto characters = reader.optional_text();
  const std::string text = to_text(runtime, subject);
  return runtime.text(std::string(strip(text, Side::Both, characters ? &*characters : nullptr)));
}

Value replace_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("replace", arguments, {"old", "new", "count"});
  const std::string old_part = to_text(runtime, reader.required());
  const std::string new_part = to_text(runtime, reader.required());
  const auto count = reader.optional();
  const int64_t limit = !count || count->is_none() ? -1 : to_index(*count, "replace");
  return runtime.text(replace(runtime, to_text(runtime, subject), old_part, new_part, limit));
}

Value centered(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("center", arguments, {"width"});
  const int64_t width = reader.optional_int(80);
  return runtime.text(pad(runtime, to_text(runtime, subject), width, Alignment::Center));
}

Value to_string(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("string", arguments);
  return subject.is_text() ? subject : runtime.text(to_text(runtime, subject));
}

Value safe(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("safe", arguments);
  return runtime.markup(to_text(runtime, subject));
}

Value escaped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("escape", arguments);
  return escape_markup(runtime, subject);
}

Value force_escaped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("forceescape", arguments);
  return escape_markup(runtime, runtime.text(to_text(runtime, subject)));
}

Value indented(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("indent", arguments, {"width", "first", "blank"});
  const auto width = reader.optional();
  const bool indent_first = reader.optional_flag(false);
  const bool indent_blank = reader.optional_flag(false);
  require_defined(subject);
  if (!subject.is_text()) {
    throw Failure("indent expects a string, found '" + subject.type_name() + "'");
  }
  std::string indent;
  if (width && width->is_text()) {
    indent = width->as_text();
  } else {
    const int64_t spaces = std::max<int64_t>(width ? to_index(*width, "indent") : 4, 0);
    runtime.charge(static_cast<size_t>(spaces));
    indent.assign(static_cast<size_t>(spaces), ' ');
  }
  const std::string text = subject.as_text() + "\n";
  std::string result = indent_first ? indent : "";
  bool is_first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!std::exchange(is_first, false)) {
      result += '\n';
      result += indent_blank || !line.empty() ? indent : "";
    }
    runtime.charge(indent.size() + line.size());
    result += line;
  }
  return runtime.text(std::move(result));
}

Value truncated(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = reader.optional_int(255);
  const bool cut_words = reader.optional_flag(false);
  const std::string end = reader.optional_text().value_or("...");
  const auto given_leeway = reader.optional();
  const int64_t leeway =
      !given_leeway || given_leeway->is_none() ? 5 : to_index(*given_leeway, "truncate");
  const auto end_length = static_cast<int64_t>(count_code_points(end));
  if (length < end_length || leeway < 0) {
    throw Failure("truncate expects a length of at least that of its end, and a leeway >= 0");
  }
  const auto size = static_cast<int64_t>(length_of(runtime, subject));
  if (size - leeway <= length) {
    return subject;
  }
  if (!subject.is_text()) {
    throw Failure("truncate expects a string, found '" + subject.type_name() + "'");
  }
  const std::string& text = subject.as_text();
  std::string result = text.substr(0, byte_offset(text, static_cast<size_t>(length - end_length)));
  if (!cut_words) {
    result.resize(std::min(result.rfind(' '), result.size()));
  }
  return runtime.text(result + end);
}

Value count_words(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("wordcount", arguments);
  int64_t words = 0;
  bool inside = false;
  for (const int32_t c : decode(to_text(runtime, subject))) {
    const bool is_word = is_alnum(c) || c == '_';
    words += is_word && !inside ? 1 : 0;
    inside = is_word;
  }
  return Value(words);
}

Value format_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    throw Failure("can't handle positional and keyword arguments at the same time");
  }
  Dict named;
  for (const auto& [name, value] : arguments.keyword) {
    named.set(Value::text(name), value);
  }
  const Value values = arguments.keyword.empty() ? runtime.tuple(arguments.positional)
                                                 : runtime.dict(std::move(named));
  return runtime.text(format_percent(runtime, to_text(runtime, subject), values));
}

std::string url_quoted(std::string_view text, bool is_query) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool stays = (byte < 0x80 && is_alnum(byte)) || c == '_' || c == '.' || c == '-' ||
                       c == '~' || (c == '/' && !is_query);
    if (stays) {
      result += c;
    } else if (c == ' ' && is_query) {
      result += '+';
    } else {
      result += '%';
      result += kHex[byte >> 4U];
      result += kHex[byte & 15U];
    }
  }
  return result;
}

Value url_encoded(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("urlencode", arguments);
  if (subject.is_text() || !is_iterable(subject)) {
    return runtime.text(url_quoted(to_text(runtime, subject), false));
  }
  std::string result;
  const auto add = [&](const Value& key, const Value& value) {
    result += (result.empty() ? "" : "&") + url_quoted(to_text(runtime, key), true) + "=" +
              url_quoted(to_text(runtime, value), true);
  };
  if (subject.is_dict()) {
    for (const auto& [key, value] : subject.as_dict().entries()) {
      add(key, value);
    }
  } else {
    for (const Value& pair : to_values(runtime, subject)) {
      const Values parts = to_values(runtime, pair);
      if (parts.size() != 2) {
        throw Failure("urlencode expects pairs, found " + std::to_string(parts.size()) + " values");
      }
      add(parts[0], parts[1]);
    }
  }
  return runtime.text(std::move(result));
}

std::optional<std::string> json_indent(Runtime& runtime, const std::optional<Value>& indent) {
  if (!indent || indent->is_none()) {
    return std::nullopt;
  }
  if (indent->is_text()) {
    return indent->as_text();
  }
  const auto width = static_cast<size_t>(std::max<int64_t>(to_index(*indent, "tojson"), 0));
  runtime.charge(width);
  return std::string(width, ' ');
}

Value as_json(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = reader.optional_flag(false);
  style.indent = json_indent(runtime, reader.optional());
  const auto separators = reader.optional();
  style.sort_keys = reader.optional_flag(false);
  if (style.indent) {
    style.item_separator = ",";
  }
  if (separators && !separators->is_none()) {
    const Values pair = to_values(runtime, *separators);
    if (pair.size() != 2 || !pair[0].is_text() || !pair[1].is_text()) {
      throw Failure("tojson expects separators to be two strings");
    }
    style.item_separator = pair[0].as_text();
    style.key_separator = pair[1].as_text();
  }
  return runtime.text(to_json(runtime, subject, style));
}

constexpr auto kTextFilters = std::to_array<Filter>({
    {"capitalize", transform_filter<capitalize>},
    {"center", centered},
    {"e", escaped},
    {"escape", escaped},
    {"forceescape", force_escaped},
    {"format", format_filter},
    {"indent", indented},
    {"lower", transform_filter<to_lower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", to_string},
    {"title", transform_filter<title_words>},
    {"tojson", as_json},
    {"trim", trim},
    {"truncate", truncated},
    {"upper", transform_filter<to_upper>},
    {"urlencode", url_encoded},
    {"wordcount", count_words},
});

}  // namespace

std::span<const Filter> text_filters() {
  return kTextFilters;
}

}  // namespace reprise::jinja
