// JsonFields: all errors have the same form.
#include "text/tokenizer/json_fields.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::text {

std::string describe(const Json& value) {
  constexpr size_t kLongest = 80;
  if (value.is_structured()) {
    return kind_of(value);
  }
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > kLongest ? kind_of(value) : text;
}

JsonFields::JsonFields(const Json& object, std::string source, std::string path, std::string part)
    : object_(&object), source_(std::move(source)), path_(std::move(path)), part_(std::move(part)) {
  TORCH_CHECK(object.is_object(),
              "[",
              part_,
              "] file ",
              source_,
              ": field ",
              path_.empty() ? "(the whole)" : path_,
              ": expected an object, found ",
              describe(object));
}

std::string JsonFields::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void JsonFields::refuse(std::string_view key,
                        const std::string& expected,
                        const std::string& found) const {
  TORCH_CHECK(false,
              "[",
              part_,
              "] file ",
              source_,
              ": field ",
              name(key),
              ": expected ",
              expected,
              ", found ",
              found);
}

bool JsonFields::has(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found != object_->end() && !found->is_null();
}

const Json& JsonFields::value(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  if (found == object_->end()) {
    refuse(key, "a value", "nothing: the field is missing");
  }
  return *found;
}

const Json& JsonFields::typed(std::string_view key,
                              bool fits,
                              const Json& found,
                              const char* expected) const {
  if (!fits) {
    refuse(key, expected, describe(found));
  }
  return found;
}

std::string JsonFields::string(std::string_view key) const {
  const Json& found = value(key);
  return typed(key, found.is_string(), found, "a string").get<std::string>();
}

std::optional<std::string> JsonFields::optional_string(std::string_view key) const {
  return has(key) ? std::optional<std::string>(string(key)) : std::nullopt;
}

bool JsonFields::boolean(std::string_view key, std::optional<bool> otherwise) const {
  if (otherwise && !has(key)) {
    return *otherwise;
  }
  const Json& found = value(key);
  return typed(key, found.is_boolean(), found, "true or false").get<bool>();
}

int64_t JsonFields::integer(std::string_view key, int64_t low, int64_t high) const {
  const Json& found = value(key);
  const std::string expected =
      "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  typed(key, found.is_number_integer(), found, expected.c_str());
  const bool too_large = found.is_number_unsigned() && found.get<uint64_t>() > uint64_t(INT64_MAX);
  const bool fits = !too_large && found.get<int64_t>() >= low && found.get<int64_t>() <= high;
  return typed(key, fits, found, expected.c_str()).get<int64_t>();
}

double JsonFields::number(std::string_view key) const {
  const Json& found = value(key);
  return typed(key, found.is_number(), found, "a number").get<double>();
}

void JsonFields::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, ignored] : object_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      refuse(key, "no such field", "one");
    }
  }
}

char32_t JsonFields::character(std::string_view key) const {
  const std::string text = string(key);
  if (text.empty() || utf8_length(text[0]) != text.size()) {
    refuse(key, "one character", describe(value(key)));
  }
  size_t at = 0;
  return next_code_point(text, at);
}

JsonFields JsonFields::object(std::string_view key) const {
  return {value(key), source_, name(key), part_};
}

const Json& JsonFields::array(std::string_view key) const {
  const Json& found = value(key);
  return typed(key, found.is_array(), found, "an array");
}

std::vector<JsonFields> JsonFields::objects(std::string_view key) const {
  const Json& elements = array(key);
  std::vector<JsonFields> result;
  result.reserve(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    result.emplace_back(elements[i], source_, name(key) + "[" + std::to_string(i) + "]", part_);
  }
  return result;
}

}  // namespace reprise::text
