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

template <void (*transform)(TextBuilder&, std::string_view)>
Value transform_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("filter", arguments);
  const Value text = to_text(runtime, subject);
  TextBuilder result(runtime);
  transform(result, text.as_text(runtime));
  return runtime.text(std::move(result));
}

// Upper case after spaces and opening brackets, lower case elsewhere. Differs from str.title().
void title_words(TextBuilder& out, std::string_view text) {
  const auto ends_word = [](int32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    const int32_t first = next_code_point(text, position);
    to_upper(out, text.substr(begin, position - begin));
    if (ends_word(first)) {
      continue;
    }
    const size_t rest = position;
    for (size_t next = position; next < text.size() && !ends_word(next_code_point(text, next));) {
      position = next;
    }
    to_lower(out, text.substr(rest, position - rest));
  }
}

Value trim(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "trim", arguments, {"chars"});
  const auto characters = reader.optional_text();
  const Value kept = to_text(runtime, subject);
  const std::string_view text = kept.as_text(runtime);
  return runtime.text(characters ? strip(runtime, text, Side::Both, *characters)
                                 : strip(text, Side::Both));
}

Value replace_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "replace", arguments, {"old", "new", "count"});
  const Value old_part = to_text(runtime, reader.required());
  const Value new_part = to_text(runtime, reader.required());
  const auto count = reader.optional();
  const int64_t limit = !count || count->is_none() ? -1 : to_index(*count, "replace");
  const Value text = to_text(runtime, subject);
  return replace(
      runtime, text.as_text(runtime), old_part.as_text(runtime), new_part.as_text(runtime), limit);
}

Value centered(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "center", arguments, {"width"});
  const int64_t width = reader.optional_int(80);
  const Value text = to_text(runtime, subject);
  TextBuilder result(runtime);
  add_padded(result, text.as_text(runtime), width, Alignment::Center);
  return runtime.text(std::move(result));
}

Value to_string(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("string", arguments);
  return to_text(runtime, subject);
}

Value safe(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("safe", arguments);
  TextBuilder result(runtime);
  write_text(runtime, result, subject);
  return runtime.markup(std::move(result));
}

Value escaped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("escape", arguments);
  return escape_markup(runtime, subject);
}

Value force_escaped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("forceescape", arguments);
  TextBuilder plain(runtime);
  write_text(runtime, plain, subject);
  return escape_markup(runtime, runtime.text(std::move(plain)));
}

Value indented(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "indent", arguments, {"width", "first", "blank"});
  const auto width = reader.optional();
  const bool indent_first = reader.optional_flag(false);
  const bool indent_blank = reader.optional_flag(false);
  require_defined(subject);
  if (!subject.is_text()) {
    throw Failure("indent expects a string, found '" + subject.type_name() + "'");
  }
  TextBuilder indent(runtime);
  if (width && width->is_text()) {
    indent.add(width->as_text(runtime));
  } else {
    const int64_t spaces = std::max<int64_t>(width ? to_index(*width, "indent") : 4, 0);
    indent.add_repeated(" ", static_cast<size_t>(spaces));
  }
  TextBuilder text(runtime);
  text.add(subject.as_text(runtime));
  text.add('\n');
  TextBuilder result(runtime);
  result.add(indent_first ? indent.view() : "");
  LineReader lines(text.view());
  bool is_first = true;
  for (std::string_view line; lines.next(line);) {
    runtime.step();
    if (!std::exchange(is_first, false)) {
      result.add('\n');
      result.add(indent_blank || !line.empty() ? indent.view() : "");
    }
    result.add(line);
  }
  return runtime.text(std::move(result));
}

Value truncated(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = reader.optional_int(255);
  const bool cut_words = reader.optional_flag(false);
  const std::string_view end = reader.optional_text().value_or("...");
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
  const std::string_view text = subject.as_text(runtime);
  std::string_view kept =
      text.substr(0, byte_offset(text, static_cast<size_t>(length - end_length)));
  if (!cut_words) {
    kept = kept.substr(0, kept.rfind(' '));
  }
  TextBuilder result(runtime);
  result.add(kept);
  result.add(end);
  return runtime.text(std::move(result));
}

Value count_words(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("wordcount", arguments);
  int64_t words = 0;
  bool inside = false;
  const Value kept = to_text(runtime, subject);
  const std::string_view text = kept.as_text(runtime);
  for (size_t position = 0; position < text.size();) {
    const int32_t c = next_code_point(text, position);
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
    named.set(runtime, runtime.text(name), value);
  }
  ItemBuilder listed(runtime);
  listed.add(arguments.positional);
  const Value values =
      arguments.keyword.empty() ? runtime.tuple(std::move(listed)) : runtime.dict(std::move(named));
  const Value format = to_text(runtime, subject);
  return runtime.text(format_percent(runtime, format.as_text(runtime), values));
}

void add_url_quoted(TextBuilder& out, std::string_view text, bool is_query) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool stays = (byte < 0x80 && is_alnum(byte)) || c == '_' || c == '.' || c == '-' ||
                       c == '~' || (c == '/' && !is_query);
    if (stays) {
      out.add(c);
    } else if (c == ' ' && is_query) {
      out.add('+');
    } else {
      out.add('%');
      out.add(kHex[byte >> 4U]);
      out.add(kHex[byte & 15U]);
    }
  }
}

Value url_encoded(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("urlencode", arguments);
  TextBuilder result(runtime);
  const auto add = [&](const Value& value, bool is_query) {
    const Value text = to_text(runtime, value);
    add_url_quoted(result, text.as_text(runtime), is_query);
  };
  if (subject.is_text() || !is_iterable(subject)) {
    add(subject, false);
    return runtime.text(std::move(result));
  }
  const auto add_pair = [&](const Value& key, const Value& value) {
    result.add(result.size() == 0 ? "" : "&");
    add(key, true);
    result.add('=');
    add(value, true);
  };
  if (subject.is_dict()) {
    for (const auto& [key, value] : subject.as_dict().entries(runtime)) {
      add_pair(key, value);
    }
  } else {
    for (const Value& pair : to_values(runtime, subject)) {
      const Values parts = to_values(runtime, pair);
      if (parts.size() != 2) {
        throw Failure("urlencode expects pairs, found " + std::to_string(parts.size()) + " values");
      }
      add_pair(parts[0], parts[1]);
    }
  }
  return runtime.text(std::move(result));
}

std::optional<std::string> json_indent(Runtime& runtime, const std::optional<Value>& indent) {
  if (!indent || indent->is_none()) {
    return std::nullopt;
  }
  TextBuilder result(runtime);
  if (indent->is_text()) {
    result.add(indent->as_text(runtime));
  } else {
    const int64_t width = std::max<int64_t>(to_index(*indent, "tojson"), 0);
    result.add_repeated(" ", static_cast<size_t>(width));
  }
  return result.take();
}

Value as_json(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(
      runtime, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
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
    runtime.charge(pair[0].text_size() + pair[1].text_size());
    style.item_separator = pair[0].as_text(runtime);
    style.key_separator = pair[1].as_text(runtime);
  }
  return to_json(runtime, subject, style);
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
