// Looking up an attribute path in items.
#include "jinja/values/attribute_getter.h"

#include "jinja/values/attributes.h"
#include "jinja/values/numbers.h"
#include "jinja/values/unicode.h"

#include <algorithm>

namespace reprise::jinja {
namespace {

// The parts of a text between separators, each of which is charged.
std::vector<std::string_view> split_at(Budget& budget, std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    budget.step();
    budget.charge(2 * sizeof(std::string_view));
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Value path_step(Runtime& runtime, std::string_view part) {
  const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
  return is_number ? Value(*parse_integer(runtime, part, 10)) : runtime.text(part);
}

}  // namespace

Value fold_case(Runtime& runtime, const Value& value, Case letters) {
  if (letters == Case::Kept || !value.is_text()) {
    return value;
  }
  TextBuilder lower(runtime);
  to_lower(lower, value.as_text(runtime));
  return runtime.text(std::move(lower));
}

AttributeGetter::AttributeGetter(Runtime& runtime,
                                 const std::optional<Value>& attribute,
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
  ItemBuilder path(runtime);
  for (const std::string_view part : split_at(runtime, attribute->as_text(runtime), '.')) {
    path.add(path_step(runtime, part));
  }
  path_ = path.take();
}

Value AttributeGetter::get(Runtime& runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : path_) {
    runtime.step();
    value = get_item(runtime, value, part);
    if (otherwise_ && value.is_undefined()) {
      value = *otherwise_;
    }
  }
  return fold_case(runtime, value, letters_);
}

MultiAttributeGetter::MultiAttributeGetter(Runtime& runtime,
                                           const std::optional<Value>& attribute,
                                           Case letters) {
  if (!attribute || !attribute->is_text()) {
    getters_.emplace_back(runtime, attribute, letters);
    return;
  }
  for (const std::string_view path : split_at(runtime, attribute->as_text(runtime), ',')) {
    runtime.charge(2 * sizeof(AttributeGetter));
    getters_.emplace_back(runtime, runtime.text(path), letters);
  }
}

Value MultiAttributeGetter::get(Runtime& runtime, const Value& item) const {
  ItemBuilder keys(runtime);
  keys.reserve(getters_.size());
  for (const AttributeGetter& getter : getters_) {
    runtime.step();
    keys.add(getter.get(runtime, item));
  }
  return runtime.list(std::move(keys));
}

}  // namespace reprise::jinja
