// JSON as Python's json.dumps writes it.
#include "jinja/values/json.h"

#include "jinja/values/operators.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"
#include "jinja/values/value_writer.h"
#include "text/unicode/utf8.h"

#include <algorithm>
#include <cmath>

namespace reprise::jinja {
namespace {

void append_unicode_escape(std::string& result, unsigned unit) {
  constexpr const char* kDigits = "0123456789abcdef";
  result += "\\u";
  for (const int shift : {12, 8, 4, 0}) {
    result += kDigits[(unit >> shift) & 0xFU];
  }
}

void append_character(std::string& result, int32_t code_point, bool ascii_only) {
  switch (code_point) {
    case '"':
      result += "\\\"";
      return;
    case '\\':
      result += "\\\\";
      return;
    case '\n':
      result += "\\n";
      return;
    case '\r':
      result += "\\r";
      return;
    case '\t':
      result += "\\t";
      return;
    case '\f':
      result += "\\f";
      return;
    case '\b':
      result += "\\b";
      return;
    default:
      break;
  }
  const auto unit = static_cast<unsigned>(code_point);
  if (unit < 0x20 || (ascii_only && unit > 0x7E && unit < 0x10000)) {
    append_unicode_escape(result, unit);
  } else if (ascii_only && unit >= 0x10000) {
    append_unicode_escape(result, 0xD800 + ((unit - 0x10000) >> 10U));
    append_unicode_escape(result, 0xDC00 + ((unit - 0x10000) & 0x3FFU));
  } else {
    append_code_point(result, code_point);
  }
}

std::string quoted(std::string_view text, bool ascii_only) {
  std::string result = "\"";
  for (size_t position = 0; position < text.size();) {
    append_character(result, next_code_point(text, position), ascii_only);
  }
  return result + "\"";
}

std::string number(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  return std::isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : float_repr(value);
}

class JsonWriter final : public ValueWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : ValueWriter(runtime), style_(style) {}

  void write(const Value& value) {
    const Runtime::Nesting nesting(runtime_);
    runtime_.step();
    if (value.is_list() || value.is_tuple()) {
      write_items(value.items());
    } else if (value.is_dict()) {
      write_dict(value.as_dict());
    } else {
      add(scalar(value));
    }
  }

 private:
  void new_line() {
    if (style_.indent) {
      add("\n");
      for (size_t i = 0; i < level_; ++i) {
        add(*style_.indent);
      }
    }
  }

  void write_items(const Values& items) {
    if (items.empty()) {
      return add("[]");
    }
    add("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      add(i == 0 ? "" : style_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    add("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) {
      return add("{}");
    }
    std::vector<Dict::Entry> entries = dict.entries();
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return is_less(runtime_, a.first, b.first);
      });
    }
    add("{");
    ++level_;
    bool first = true;
    for (const auto& [key, value] : entries) {
      add(std::exchange(first, false) ? "" : style_.item_separator);
      new_line();
      add(quoted(key_text(key), style_.ascii_only));
      add(style_.key_separator);
      write(value);
    }
    --level_;
    new_line();
    add("}");
  }

  std::string key_text(const Value& key) {
    if (key.is_text()) {
      return key.as_text();
    }
    if (key.is_number() || key.is_none()) {
      return scalar(key);
    }
    throw Failure("keys must be str, int, float, bool or None, not " + key.type_name());
  }

  std::string scalar(const Value& value) {
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
    if (value.is_text()) {
      return quoted(value.as_text(), style_.ascii_only);
    }
    throw Failure("Object of type " + value.type_name() + " is not JSON serializable");
  }

  const JsonStyle& style_;
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
  const Runtime::Nesting nesting(runtime);
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
      Values items;
      items.reserve(json.size());
      for (const Json& item : json) {
        items.push_back(from_json(runtime, item));
      }
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.set(text_from_json(runtime, key), from_json(runtime, item));
      }
      return runtime.dict(std::move(dict));
    }
    default:
      return {};
  }
}

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return writer.take();
}

}  // namespace reprise::jinja
