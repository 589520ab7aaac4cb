// Python's str methods that search, split or join text.
#include "jinja/arguments.h"
#include "jinja/builtins/methods.h"
#include "jinja/builtins/string_methods.h"
#include "jinja/values/operators.h"
#include "jinja/values/substring_search.h"
#include "jinja/values/unicode.h"
#include "text/unicode/utf8.h"

#include <algorithm>
#include <array>

namespace reprise::jinja {
namespace {

// The part of a text that the optional start and stop arguments select, in bytes.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  bool is_valid = true;  ///< start is not beyond the end
};

Window window(std::string_view text, ArgumentReader& reader) {
  const auto size = static_cast<int64_t>(count_code_points(text));
  const auto read = [&](int64_t otherwise) {
    const auto value = reader.optional();
    int64_t index = !value || value->is_none() ? otherwise : to_index(*value, "str method");
    index = index < 0 ? std::max<int64_t>(index + size, 0) : index;
    return index;
  };
  const int64_t start = read(0);
  const int64_t stop = std::min(read(size), size);
  Window result;
  result.is_valid = start <= size;
  result.begin = byte_offset(text, static_cast<size_t>(std::min(start, size)));
  result.end = std::max(result.begin, byte_offset(text, static_cast<size_t>(stop)));
  result.is_valid = result.is_valid && start <= std::max(stop, int64_t{0});
  return result;
}

template <bool from_right>
constexpr auto kDirection =
    from_right ? SubstringSearch::Direction::Backward : SubstringSearch::Direction::Forward;

// The index in characters, or -1.
template <bool from_right>
int64_t find_in(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("find", arguments, {"/sub", "/start", "/end"});
  const std::string wanted = reader.required_text();
  const std::string_view text = self.as_text();
  const Window part = window(text, reader);
  if (!part.is_valid) {
    return -1;
  }
  const std::string_view inside = text.substr(part.begin, part.end - part.begin);
  const size_t found = SubstringSearch(runtime, wanted, kDirection<from_right>).find(inside);
  return found == std::string_view::npos
             ? -1
             : static_cast<int64_t>(count_code_points(text.substr(0, part.begin + found)));
}

template <bool from_right>
Value find_method_body(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Value(find_in<from_right>(runtime, self, arguments));
}

template <bool from_right>
Value index_method_body(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const int64_t found = find_in<from_right>(runtime, self, arguments);
  if (found < 0) {
    throw Failure("substring not found");
  }
  return Value(found);
}

Value count_parts(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("count", arguments, {"/sub", "/start", "/end"});
  const std::string wanted = reader.required_text();
  const Window part = window(self.as_text(), reader);
  if (!part.is_valid) {
    return Value(int64_t{0});
  }
  std::string_view inside =
      std::string_view(self.as_text()).substr(part.begin, part.end - part.begin);
  if (wanted.empty()) {
    return Value(static_cast<int64_t>(count_code_points(inside)) + 1);
  }
  int64_t count = 0;
  const SubstringSearch search(runtime, wanted);
  for (size_t at = search.find(inside); at != std::string_view::npos; at = search.find(inside)) {
    inside.remove_prefix(at + wanted.size());
    ++count;
  }
  return Value(count);
}

template <bool at_end>
Value starts_or_ends(Runtime&, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(
      at_end ? "endswith" : "startswith", arguments, {"/prefix", "/start", "/end"});
  const Value wanted = reader.required();
  const Window part = window(self.as_text(), reader);
  const std::string_view inside =
      std::string_view(self.as_text()).substr(part.begin, part.end - part.begin);
  const auto matches = [&](const Value& value) {
    if (!value.is_text()) {
      throw Failure("startswith and endswith expect a string or a tuple of strings, found '" +
                    value.type_name() + "'");
    }
    return part.is_valid &&
           (at_end ? inside.ends_with(value.as_text()) : inside.starts_with(value.as_text()));
  };
  if (wanted.is_tuple()) {
    return Value(std::any_of(wanted.items().begin(), wanted.items().end(), matches));
  }
  return Value(matches(wanted));
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("replace", arguments, {"/old", "/new", "/count"});
  const std::string old_part = reader.required_text();
  const std::string new_part = reader.required_text();
  return runtime.text(
      replace(runtime, self.as_text(), old_part, new_part, reader.optional_int(-1)));
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("join", arguments, {"/iterable"});
  std::string result;
  Cursor cursor(runtime, reader.required());
  int64_t index = 0;
  for (Value item; cursor.next(item); ++index) {
    if (!item.is_text()) {
      throw Failure("sequence item " + std::to_string(index) + ": expected str instance, " +
                    item.type_name() + " found");
    }
    runtime.charge(item.as_text().size() + self.as_text().size());
    result += index == 0 ? "" : self.as_text();
    result += item.as_text();
  }
  return runtime.text(std::move(result));
}

Value texts(Runtime& runtime, const std::vector<std::string_view>& parts) {
  runtime.charge(parts.size(), sizeof(Value));
  Values items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    items.push_back(runtime.text(std::string(part)));
  }
  return runtime.list(std::move(items));
}

// Splits at runs of spaces from the left, at most `limit` times.
std::vector<std::string_view> split_words(std::string_view text, int64_t limit) {
  std::vector<std::string_view> words;
  text = strip(text, Side::Left);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.push_back(strip(text, Side::Right));
      return words;
    }
    size_t end = 0;
    for (size_t next = 0; end < text.size() && !is_space(next_code_point(text, next)); end = next) {
    }
    words.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::Left);
  }
  return words;
}

// The same from the right; the words are in reverse order.
std::vector<std::string_view> split_words_from_right(std::string_view text, int64_t limit) {
  std::vector<std::string_view> words;
  text = strip(text, Side::Right);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.push_back(strip(text, Side::Left));
      return words;
    }
    size_t start = text.size();
    while (start > 0) {
      size_t previous = start;
      if (is_space(static_cast<int32_t>(text::previous_code_point(text, previous)))) {
        break;
      }
      start = previous;
    }
    words.push_back(text.substr(start));
    text = strip(text.substr(0, start), Side::Right);
  }
  return words;
}

template <bool from_right>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("split", arguments, {"sep", "maxsplit"});
  const auto separator = reader.optional_text();
  const int64_t limit = reader.optional_int(-1);
  std::string_view text = self.as_text();
  runtime.charge(text.size());
  std::vector<std::string_view> parts;
  if (!separator) {
    parts = from_right ? split_words_from_right(text, limit) : split_words(text, limit);
  } else if (separator->empty()) {
    throw Failure("empty separator");
  } else {
    const SubstringSearch search(runtime, *separator, kDirection<from_right>);
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      const size_t at = search.find(text);
      if (at == std::string_view::npos) {
        break;
      }
      const size_t after = at + separator->size();
      parts.push_back(from_right ? text.substr(after) : text.substr(0, at));
      text = from_right ? text.substr(0, at) : text.substr(after);
    }
    parts.push_back(text);
  }
  if (from_right) {
    std::reverse(parts.begin(), parts.end());
  }
  return texts(runtime, parts);
}

Value lines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("splitlines", arguments, {"keepends"});
  runtime.charge(self.as_text().size());
  return texts(runtime, split_lines(self.as_text(), reader.optional_flag(false)));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("partition", arguments, {"/sep"});
  const std::string separator = reader.required_text();
  if (separator.empty()) {
    throw Failure("empty separator");
  }
  const std::string& text = self.as_text();
  const size_t at = SubstringSearch(runtime, separator, kDirection<from_right>).find(text);
  if (at == std::string::npos) {
    const Value empty = Value::text("");
    return from_right ? runtime.tuple({empty, empty, self}) : runtime.tuple({self, empty, empty});
  }
  return runtime.tuple({runtime.text(text.substr(0, at)),
                        runtime.text(separator),
                        runtime.text(text.substr(at + separator.size()))});
}

constexpr auto kSearchMethods = std::to_array<Method>({
    {"count", count_parts},
    {"endswith", starts_or_ends<true>},
    {"find", find_method_body<false>},
    {"index", index_method_body<false>},
    {"join", join_method},
    {"partition", partition<false>},
    {"replace", replace_method},
    {"rfind", find_method_body<true>},
    {"rindex", index_method_body<true>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"split", split<false>},
    {"splitlines", lines},
    {"startswith", starts_or_ends<false>},
});

}  // namespace

std::span<const Method> string_search_methods() {
  return kSearchMethods;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> result;
  size_t start = 0;
  for (size_t position = 0; position < text.size();) {
    const size_t end = position;
    const int32_t c = next_code_point(text, position);
    if (!is_line_break(c)) {
      continue;
    }
    if (c == '\r' && position < text.size() && text[position] == '\n') {
      ++position;
    }
    result.push_back(text.substr(start, (keep_ends ? position : end) - start));
    start = position;
  }
  if (start < text.size()) {
    result.push_back(text.substr(start));
  }
  return result;
}

std::string replace(Runtime& runtime,
                    std::string_view text,
                    std::string_view old_part,
                    std::string_view new_part,
                    int64_t count) {
  std::string result;
  size_t position = 0;
  const auto add = [&](std::string_view more) {
    runtime.charge(more.size());
    result += more;
  };
  const SubstringSearch search(runtime, old_part);
  for (; count != 0 && position <= text.size(); --count) {
    const size_t offset = search.find(text.substr(position));
    if (offset == std::string_view::npos) {
      break;
    }
    const size_t found = position + offset;
    add(text.substr(position, found - position));
    add(new_part);
    position = found + old_part.size();
    if (old_part.empty()) {
      // Before every character, and at the end.
      if (position == text.size()) {
        return result;
      }
      next_code_point(text, position);
      add(text.substr(found, position - found));
    }
  }
  add(text.substr(position));
  return result;
}

}  // namespace reprise::jinja
