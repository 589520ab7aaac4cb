// JSON as Python's json.dumps writes it.
#include "jinja/values/json.h"

#include "jinja/values/operators.h"
#include "jinja/values/repr.h"
#include "jinja/values/sorting.h"
#include "jinja/values/unicode.h"
#include "text/unicode/utf8.h"

#include <algorithm>
#include <cmath>

namespace reprise::jinja {
namespace {

void add_unicode_escape(TextBuilder& out, unsigned unit) {
  constexpr const char* kDigits = "0123456789abcdef";
  out.add("\\u");
  for (const int shift : {12, 8, 4, 0}) {
    out.add(kDigits[(unit >> shift) & 0xFU]);
  }
}

void add_character(TextBuilder& out, int32_t code_point, bool ascii_only) {
  switch (code_point) {
    case '"':
      out.add("\\\"");
      return;
    case '\\':
      out.add("\\\\");
      return;
    case '\n':
      out.add("\\n");
      return;
    case '\r':
      out.add("\\r");
      return;
    case '\t':
      out.add("\\t");
      return;
    case '\f':
      out.add("\\f");
      return;
    case '\b':
      out.add("\\b");
      return;
    default:
      break;
  }
  const auto unit = static_cast<unsigned>(code_point);
  if (unit < 0x20 || (ascii_only && unit > 0x7E && unit < 0x10000)) {
    add_unicode_escape(out, unit);
  } else if (ascii_only && unit >= 0x10000) {
    add_unicode_escape(out, 0xD800 + ((unit - 0x10000) >> 10U));
    add_unicode_escape(out, 0xDC00 + ((unit - 0x10000) & 0x3FFU));
  } else {
    out.add_code_point(code_point);
  }
}

void add_quoted(TextBuilder& out, std::string_view text, bool ascii_only) {
  out.add('"');
  for (size_t position = 0; position < text.size();) {
    add_character(out, next_code_point(text, position), ascii_only);
  }
  out.add('"');
}

std::string number(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  return std::isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : float_repr(value);
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime) {}

  void write(const Value& value) {
    const Budget::Nesting nesting(runtime_);
    runtime_.step();
    if (value.is_list() || value.is_tuple()) {
      write_items(value);
    } else if (value.is_dict()) {
      write_dict(value.as_dict());
    } else if (value.is_text()) {
      add_quoted(out_, value.as_text(runtime_), style_.ascii_only);
    } else {
      out_.add(scalar(value));
    }
  }

  TextBuilder take() { return std::move(out_); }

 private:
  void new_line() {
    if (style_.indent) {
      out_.add("\n");
      out_.add_repeated(*style_.indent, level_);
    }
  }

  void write_items(const Value& value) {
    if (value.item_count() == 0) {
      return out_.add("[]");
    }
    out_.add("[");
    ++level_;
    for (size_t i = 0; i < value.item_count(); ++i) {
      out_.add(i == 0 ? "" : style_.item_separator);
      new_line();
      write(value.item_at(i));
    }
    --level_;
    new_line();
    out_.add("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) {
      return out_.add("{}");
    }
    out_.add("{");
    ++level_;
    if (style_.sort_keys) {
      write_sorted(dict);
    } else {
      for (size_t i = 0; i < dict.size(); ++i) {
        write_entry(dict.entry_at(i).first, dict.entry_at(i).second, i == 0);
      }
    }
    --level_;
    new_line();
    out_.add("}");
  }

  void write_sorted(const Dict& dict) {
    ItemBuilder pairs(runtime_);
    for (const auto& [key, value] : dict.entries(runtime_)) {
      pairs.add(runtime_.pair(key, value));
    }
    bool is_first = true;
    const auto key_of = [](const Value& pair) { return pair.item_at(0); };
    for (const Value& pair : sort_by(runtime_, pairs.take(), key_of, Direction::Up)) {
      write_entry(pair.item_at(0), pair.item_at(1), std::exchange(is_first, false));
    }
  }

  void write_entry(const Value& key, const Value& value, bool is_first) {
    out_.add(is_first ? "" : style_.item_separator);
    new_line();
    if (key.is_text()) {
      add_quoted(out_, key.as_text(runtime_), style_.ascii_only);
    } else if (key.is_number() || key.is_none()) {
      out_.add('"');
      out_.add(scalar(key));
      out_.add('"');
    } else {
      throw Failure("keys must be str, int, float, bool or None, not " + key.type_name());
    }
    out_.add(style_.key_separator);
    write(value);
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) {
      return "null";
    }
    if (value.is_bool()) {
      return value.as_bool() ? "true" : "false";
    }
    if (value.is_int()) {
      return std::to_string(value.as_int());
    }
    if (value.is_float()) {
      return number(value.as_float());
    }
    throw Failure("Object of type " + value.type_name() + " is not JSON serializable");
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
  size_t level_ = 0;
};

Value text_from_json(Runtime& runtime, const std::string& text) {
  if (text::valid_utf8_prefix(text) != text.size()) {
    throw Failure("a variable holds a string that is not valid UTF-8");
  }
  return runtime.text(text);
}

}  // namespace

Value from_json(Runtime& runtime, const Json& json) {
  const Budget::Nesting nesting(runtime);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw Failure("a variable holds the integer " + json.dump() + ", beyond 64 bits");
      }
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return text_from_json(runtime, json.get_ref<const std::string&>());
    case Json::value_t::array: {
      ItemBuilder items(runtime);
      items.reserve(json.size());
      for (const Json& item : json) {
        items.add(from_json(runtime, item));
      }
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.set(runtime, text_from_json(runtime, key), from_json(runtime, item));
      }
      return runtime.dict(std::move(dict));
    }
    default:
      return {};
  }
}

Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return runtime.text(writer.take());
}

}  // namespace reprise::jinja
