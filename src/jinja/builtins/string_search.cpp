// Python's str methods that search, split or join text.
#include "jinja/arguments.h"
#include "jinja/builtins/methods.h"
#include "jinja/builtins/string_methods.h"
#include "jinja/values/operators.h"
#include "jinja/values/substring_search.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <array>
#include <utility>

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
  ArgumentReader reader(runtime, "find", arguments, {"/sub", "/start", "/end"});
  const std::string_view wanted = reader.required_text();
  const std::string_view text = self.as_text(runtime);
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
  ArgumentReader reader(runtime, "count", arguments, {"/sub", "/start", "/end"});
  const std::string_view wanted = reader.required_text();
  const std::string_view text = self.as_text(runtime);
  const Window part = window(text, reader);
  if (!part.is_valid) {
    return Value(int64_t{0});
  }
  std::string_view inside = text.substr(part.begin, part.end - part.begin);
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
Value starts_or_ends(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(
      runtime, at_end ? "endswith" : "startswith", arguments, {"/prefix", "/start", "/end"});
  const Value wanted = reader.required();
  const std::string_view text = self.as_text(runtime);
  const Window part = window(text, reader);
  const std::string_view inside = text.substr(part.begin, part.end - part.begin);
  const auto matches = [&](const Value& value) {
    if (!value.is_text()) {
      throw Failure("startswith and endswith expect a string or a tuple of strings, found '" +
                    value.type_name() + "'");
    }
    const std::string_view affix = value.as_text(runtime);
    return part.is_valid && (at_end ? inside.ends_with(affix) : inside.starts_with(affix));
  };
  if (wanted.is_tuple()) {
    const Values& several = wanted.items(runtime);
    return Value(std::any_of(several.begin(), several.end(), matches));
  }
  return Value(matches(wanted));
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "replace", arguments, {"/old", "/new", "/count"});
  const std::string_view old_part = reader.required_text();
  const std::string_view new_part = reader.required_text();
  return replace(runtime, self.as_text(runtime), old_part, new_part, reader.optional_int(-1));
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "join", arguments, {"/iterable"});
  TextBuilder result(runtime);
  Cursor cursor(runtime, reader.required());
  int64_t index = 0;
  for (Value item; cursor.next(item); ++index) {
    if (!item.is_text()) {
      throw Failure("sequence item " + std::to_string(index) + ": expected str instance, " +
                    item.type_name() + " found");
    }
    if (index != 0) {
      result.add(self.as_text(runtime));
    }
    result.add(item.as_text(runtime));
  }
  return runtime.text(std::move(result));
}

// Splits off the first of the words between spaces, or the last; strips the rest on that side.
template <bool from_right>
std::string_view take_word(std::string_view& text) {
  size_t cut = from_right ? text.size() : 0;
  while (from_right ? cut > 0 : cut < text.size()) {
    size_t next = cut;
    if (is_space(from_right ? previous_code_point(text, next) : next_code_point(text, next))) {
      break;
    }
    cut = next;
  }
  const std::string_view word = from_right ? text.substr(cut) : text.substr(0, cut);
  text = from_right ? strip(text.substr(0, cut), Side::Right) : strip(text.substr(cut), Side::Left);
  return word;
}

// The words between runs of spaces, at most `limit` of them cut off; from the right: reversed.
template <bool from_right>
void add_words(Runtime& runtime, ItemBuilder& parts, std::string_view text, int64_t limit) {
  text = strip(text, from_right ? Side::Right : Side::Left);
  while (!text.empty()) {
    runtime.step();
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.add(runtime.text(strip(text, from_right ? Side::Left : Side::Right)));
      return;
    }
    parts.add(runtime.text(take_word<from_right>(text)));
  }
}

template <bool from_right>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "split", arguments, {"sep", "maxsplit"});
  const auto separator = reader.optional_text();
  const int64_t limit = reader.optional_int(-1);
  std::string_view text = self.as_text(runtime);
  ItemBuilder parts(runtime);
  if (!separator) {
    add_words<from_right>(runtime, parts, text, limit);
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
      parts.add(runtime.text(from_right ? text.substr(after) : text.substr(0, at)));
      text = from_right ? text.substr(0, at) : text.substr(after);
    }
    parts.add(runtime.text(text));
  }
  Values items = parts.take();
  if (from_right) {
    std::reverse(items.begin(), items.end());
  }
  return runtime.list(ItemBuilder(runtime, std::move(items)));
}

Value lines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "splitlines", arguments, {"keepends"});
  LineReader all(self.as_text(runtime), reader.optional_flag(false));
  ItemBuilder result(runtime);
  for (std::string_view line; all.next(line);) {
    runtime.step();
    result.add(runtime.text(line));
  }
  return runtime.list(std::move(result));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "partition", arguments, {"/sep"});
  const std::string_view separator = reader.required_text();
  if (separator.empty()) {
    throw Failure("empty separator");
  }
  const std::string_view text = self.as_text(runtime);
  const size_t at = SubstringSearch(runtime, separator, kDirection<from_right>).find(text);
  const bool found = at != std::string_view::npos;
  const Value empty = Value::literal("");
  ItemBuilder parts(runtime);
  parts.add(found ? runtime.text(text.substr(0, at)) : from_right ? empty : self);
  parts.add(found ? runtime.text(separator) : empty);
  parts.add(found ? runtime.text(text.substr(at + separator.size())) : from_right ? self : empty);
  return runtime.tuple(std::move(parts));
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

bool LineReader::next(std::string_view& line) {
  if (rest_.empty()) {
    return false;
  }
  for (size_t position = 0; position < rest_.size();) {
    const size_t end = position;
    const int32_t c = next_code_point(rest_, position);
    if (!is_line_break(c)) {
      continue;
    }
    if (c == '\r' && position < rest_.size() && rest_[position] == '\n') {
      ++position;
    }
    line = rest_.substr(0, keep_ends_ ? position : end);
    rest_.remove_prefix(position);
    return true;
  }
  line = std::exchange(rest_, {});
  return true;
}

Value replace(Runtime& runtime,
              std::string_view text,
              std::string_view old_part,
              std::string_view new_part,
              int64_t count) {
  TextBuilder result(runtime);
  size_t position = 0;
  const SubstringSearch search(runtime, old_part);
  for (; count != 0 && position <= text.size(); --count) {
    const size_t offset = search.find(text.substr(position));
    if (offset == std::string_view::npos) {
      break;
    }
    const size_t found = position + offset;
    result.add(text.substr(position, found - position));
    result.add(new_part);
    position = found + old_part.size();
    if (old_part.empty()) {
      // Before every character, and at the end.
      if (position == text.size()) {
        return runtime.text(std::move(result));
      }
      next_code_point(text, position);
      result.add(text.substr(found, position - found));
    }
  }
  result.add(text.substr(position));
  return runtime.text(std::move(result));
}

}  // namespace reprise::jinja
