// Looking up an attribute path in items.
#include "jinja/values/attribute_getter.h"

#include "jinja/values/attributes.h"
#include "jinja/values/numbers.h"
#include "jinja/values/unicode.h"

#include <algorithm>

namespace reprise::jinja {
namespace {

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Value path_step(const std::string& part) {
  const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
  return is_number ? Value(*parse_integer(part, 10)) : Value::text(part);
}

}  // namespace

Value fold_case(Runtime& runtime, const Value& value, Case letters) {
  return letters == Case::Ignored && value.is_text() ? runtime.text(to_lower(value.as_text()))
                                                     : value;
}

AttributeGetter::AttributeGetter(const std::optional<Value>& attribute,
                                 Case letters,
                                 std::optional<Value> otherwise)
    : letters_(letters), otherwise_(std::move(otherwise)) {
  if (otherwise_ && otherwise_->is_none()) {
    otherwise_.reset();
  }
  if (!attribute || attribute->is_none()) {
    return;
  }
  if (!attribute->is_text()) {
    path_.push_back(*attribute);
    return;
  }
  for (const std::string& part : split_at(attribute->as_text(), '.')) {
    path_.push_back(path_step(part));
  }
}

Value AttributeGetter::get(Runtime& runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : path_) {
    value = get_item(runtime, value, part);
    if (otherwise_ && value.is_undefined()) {
      value = *otherwise_;
    }
  }
  return fold_case(runtime, value, letters_);
}

MultiAttributeGetter::MultiAttributeGetter(const std::optional<Value>& attribute, Case letters) {
  if (!attribute || !attribute->is_text()) {
    getters_.emplace_back(attribute, letters);
    return;
  }
  for (const std::string& path : split_at(attribute->as_text(), ',')) {
    getters_.emplace_back(Value::text(path), letters);
  }
}

Value MultiAttributeGetter::get(Runtime& runtime, const Value& item) const {
  Values keys;
  keys.reserve(getters_.size());
  for (const AttributeGetter& getter : getters_) {
    keys.push_back(getter.get(runtime, item));
  }
  return runtime.list(std::move(keys));
}

}  // namespace reprise::jinja
