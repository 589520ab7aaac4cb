// Budgets of a rendering, and iteration over values.
#include "jinja/runtime.h"

#include "jinja/values/objects.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <limits>

namespace reprise::jinja {

Runtime::Runtime(const TemplateLimits& limits, TemplateClock clock)
    : limits_(limits), clock_(std::move(clock)) {}

// First every object drops its references while all of them are still owned here, so that neither
// cycles nor long chains of objects are freed recursively.
Runtime::~Runtime() {
  for (const auto& object : objects_) {
    object->release();
  }
}

void Runtime::step(size_t count) {
  steps_ += count;
  if (steps_ > limits_.max_steps) {
    throw Failure("runs for more than " + std::to_string(limits_.max_steps) +
                  " steps; the template may not end, or needs a larger TemplateLimits::max_steps");
  }
}

void Runtime::charge(size_t bytes) {
  if (bytes > limits_.max_allocated - std::min(allocated_, limits_.max_allocated)) {
    throw Failure("needs more than " + std::to_string(limits_.max_allocated) +
                  " bytes for its values (TemplateLimits::max_allocated)");
  }
  allocated_ += bytes;
}

void Runtime::charge(size_t count, size_t size) {
  if (size != 0 && count > std::numeric_limits<size_t>::max() / size) {
    charge(std::numeric_limits<size_t>::max());
  }
  charge(count * size);
}

void Runtime::check_depth(size_t depth) const {
  if (depth > limits_.max_depth) {
    throw Failure("a value is nested more than " + std::to_string(limits_.max_depth) + " deep");
  }
}

Value Runtime::text(std::string bytes) {
  charge(bytes.size() + kObjectOverhead);
  return Value::text(std::move(bytes));
}

Value Runtime::markup(std::string bytes) {
  charge(bytes.size() + kObjectOverhead);
  return Value(Value::Text{std::make_shared<const std::string>(std::move(bytes)), true});
}

std::shared_ptr<const Sequence> Runtime::sequence(Values items) {
  charge(items.size(), sizeof(Value));
  charge(kObjectOverhead);
  auto result = std::make_shared<Sequence>();
  for (const Value& item : items) {
    result->depth = std::max(result->depth, item.depth() + 1);
  }
  check_depth(result->depth);
  result->items = std::move(items);
  return result;
}

Value Runtime::list(Values items) {
  return Value(Value::List{sequence(std::move(items))});
}

Value Runtime::tuple(Values items) {
  return Value(Value::Tuple{sequence(std::move(items))});
}

Value Runtime::group(Value key, Value members) {
  auto pair = std::make_shared<Sequence>(*sequence({std::move(key), std::move(members)}));
  pair->is_group = true;
  return Value(Value::Tuple{std::move(pair)});
}

Value Runtime::dict(Dict entries) {
  charge(entries.size(), sizeof(Dict::Entry));
  charge(kObjectOverhead);
  check_depth(entries.depth());
  return Value(std::make_shared<const Dict>(std::move(entries)));
}

Runtime::Nesting::Nesting(Runtime& runtime) : runtime_(runtime) {
  if (runtime.depth_ >= runtime.limits_.max_depth) {
    throw Failure("nested more than " + std::to_string(runtime.limits_.max_depth) +
                  " deep (TemplateLimits::max_depth)");
  }
  ++runtime.depth_;
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
}

bool Cursor::next(Value& item) {
  runtime_.step();
  if (auto* iterator = iterable_.as<Iterator>()) {
    const Runtime::Nesting nesting(runtime_);
    return iterator->next(runtime_, item);
  }
  if (iterable_.is_text()) {
    const std::string& text = iterable_.as_text();
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
    if (at >= iterable_.items().size()) {
      return false;
    }
    item = iterable_.items()[at];
    return true;
  }
  if (iterable_.is_dict()) {
    if (at >= iterable_.as_dict().size()) {
      return false;
    }
    item = iterable_.as_dict().entries()[at].first;
    return true;
  }
  if (iterable_.is_range() && static_cast<int64_t>(at) < iterable_.as_range().size()) {
    item = Value(iterable_.as_range().at(static_cast<int64_t>(at)));
    return true;
  }
  return false;
}

Values to_values(Runtime& runtime, const Value& iterable) {
  Values result;
  Cursor cursor(runtime, iterable);
  for (Value item; cursor.next(item);) {
    runtime.charge(sizeof(Value));
    result.push_back(item);
  }
  return result;
}

}  // namespace reprise::jinja
