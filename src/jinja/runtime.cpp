// Making values, and iterating over them.
#include "jinja/runtime.h"

#include "jinja/values/objects.h"
#include "jinja/values/unicode.h"

#include <algorithm>

namespace reprise::jinja {

Runtime::Runtime(const TemplateLimits& limits, TemplateClock clock)
    : Budget(limits), clock_(std::move(clock)) {}

// First every object drops its references while all of them are still owned here, so that neither
// cycles nor long chains of objects are freed recursively.
Runtime::~Runtime() {
  for (const auto& object : objects_) {
    object->release();
  }
}

void Runtime::check_depth(size_t depth) const {
  if (depth > limits().max_depth) {
    throw Failure("a value is nested more than " + std::to_string(limits().max_depth) + " deep");
  }
}

Value Runtime::text(std::string_view bytes) {
  charge(bytes.size() + kObjectOverhead);
  return Value::literal(std::string(bytes));
}

Value Runtime::text(TextBuilder text) {
  charge(kObjectOverhead);
  return Value::literal(text.take());
}

Value Runtime::markup(TextBuilder text) {
  charge(kObjectOverhead);
  return Value(Value::Text{std::make_shared<const std::string>(text.take()), true});
}

std::shared_ptr<Sequence> Runtime::sequence(ItemBuilder items) {
  charge(kObjectOverhead);
  step(items.size());
  auto result = std::make_shared<Sequence>();
  result->items = items.take();
  for (const Value& item : result->items) {
    result->depth = std::max(result->depth, item.depth() + 1);
  }
  check_depth(result->depth);
  return result;
}

Value Runtime::list(ItemBuilder items) {
  return Value(Value::List{sequence(std::move(items))});
}

Value Runtime::tuple(ItemBuilder items) {
  return Value(Value::Tuple{sequence(std::move(items))});
}

Value Runtime::pair(Value first, Value second) {
  ItemBuilder items(*this);
  items.reserve(2);
  items.add(std::move(first));
  items.add(std::move(second));
  return tuple(std::move(items));
}

Value Runtime::group(Value key, Value members) {
  ItemBuilder items(*this);
  items.add(std::move(key));
  items.add(std::move(members));
  auto result = sequence(std::move(items));
  result->is_group = true;
  return Value(Value::Tuple{std::move(result)});
}

Value Runtime::dict(Dict entries) {
  charge(kObjectOverhead);
  check_depth(entries.depth());
  return Value(std::make_shared<const Dict>(std::move(entries)));
}

bool is_iterable(const Value& value) {
  return value.is_text() || value.is_list() || value.is_tuple() || value.is_dict() ||
         value.is_range() || value.is_undefined() || value.as<Iterator>() != nullptr ||
         value.as<DictView>() != nullptr;
}

Cursor::Cursor(Runtime& runtime, Value iterable)
    : runtime_(runtime), iterable_(std::move(iterable)) {
  if (!is_iterable(iterable_)) {
    throw Failure("'" + iterable_.type_name() + "' object is not iterable");
  }
  if (const auto* view = iterable_.as<DictView>()) {
    iterable_ = view->items();
  }
  if (iterable_.is_text()) {
    text_ = &iterable_.as_text(runtime);
  }
}

bool Cursor::next(Value& item) {
  runtime_.step();
  if (auto* iterator = iterable_.as<Iterator>()) {
    const Runtime::Nesting nesting(runtime_);
    return iterator->next(runtime_, item);
  }
  if (text_ != nullptr) {
    const std::string_view text = *text_;
    if (position_ >= text.size()) {
      return false;
    }
    const size_t start = position_;
    next_code_point(text, position_);
    item = runtime_.text(text.substr(start, position_ - start));
    return true;
  }
  const size_t at = position_++;
  if (iterable_.is_list() || iterable_.is_tuple()) {
    if (at >= iterable_.item_count()) {
      return false;
    }
    item = iterable_.item_at(at);
    return true;
  }
  if (iterable_.is_dict()) {
    if (at >= iterable_.as_dict().size()) {
      return false;
    }
    item = iterable_.as_dict().entry_at(at).first;
    return true;
  }
  if (iterable_.is_range() && static_cast<int64_t>(at) < iterable_.as_range().size()) {
    item = Value(iterable_.as_range().at(static_cast<int64_t>(at)));
    return true;
  }
  return false;
}

ItemBuilder to_items(Runtime& runtime, const Value& iterable) {
  ItemBuilder result(runtime);
  Cursor cursor(runtime, iterable);
  for (Value item; cursor.next(item);) {
    result.add(item);
  }
  return result;
}

}  // namespace reprise::jinja
