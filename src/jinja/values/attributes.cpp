// Attributes, items and slices.
#include "jinja/values/attributes.h"

#include "jinja/builtins/methods.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <optional>

namespace reprise::jinja {
namespace {

std::string described(const Value& object) {
  return object.is_none() ? "None" : object.type_name() + " object";
}

Value no_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined("'" + described(object) + "' has no attribute " + quote(name));
}

Value unsafe_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined("access to attribute " + quote(name) + " of '" + object.type_name() +
                           "' object is unsafe.");
}

std::optional<Value> attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) {
    if (name.starts_with("__")) {
      return unsafe_attribute(runtime, object, name);
    }
    require_defined(object);
  }
  if (name.starts_with("__") && object.as<Namespace>() == nullptr) {
    return is_python_attribute(object, name) ? unsafe_attribute(runtime, object, name)
                                             : std::optional<Value>();
  }
  if (object.is_object()) {
    return object.as_object().attribute(runtime, name);
  }
  if (object.is_group() && (name == "grouper" || name == "list")) {
    return object.item_at(name == "grouper" ? 0 : 1);
  }
  if (const Method* method = find_method(object, name)) {
    return make_function(
        runtime, method->name, [object, method](Runtime& inner, const Arguments& arguments) {
          return method->apply(inner, object, arguments);
        });
  }
  if (is_mutating_method(object, name)) {
    return unsafe_attribute(runtime, object, name);
  }
  if (is_python_attribute(object, name)) {
    throw Failure(object.type_name() + "." + std::string(name) +
                  " is not supported in a chat template");
  }
  return std::nullopt;
}

// Resolves an index, counted from the end if negative; std::nullopt if out of range.
std::optional<size_t> position(int64_t index, size_t size) {
  const int64_t from_start = index < 0 ? index + static_cast<int64_t>(size) : index;
  if (from_start < 0 || from_start >= static_cast<int64_t>(size)) {
    return std::nullopt;
  }
  return static_cast<size_t>(from_start);
}

std::optional<Value> item(Runtime& runtime, const Value& object, const Value& index) {
  require_defined(object);
  if (object.is_dict()) {
    // Python cannot hash a list, and jinja2 treats such a key as absent.
    const Value* found =
        index.is_list() || index.is_dict() ? nullptr : object.as_dict().find(runtime, index);
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  if (!index.is_integral()) {
    return std::nullopt;
  }
  if (object.is_list() || object.is_tuple()) {
    const auto at = position(index.as_int(), object.item_count());
    return at ? std::optional<Value>(object.item_at(*at)) : std::nullopt;
  }
  if (object.is_text()) {
    const std::string_view text = object.as_text(runtime);
    const auto at = position(index.as_int(), count_code_points(text));
    if (!at) {
      return std::nullopt;
    }
    const size_t start = byte_offset(text, *at);
    size_t end = start;
    next_code_point(text, end);
    return runtime.text(text.substr(start, end - start));
  }
  if (object.is_range()) {
    const auto at = position(index.as_int(), static_cast<size_t>(object.as_range().size()));
    return at ? std::optional<Value>(Value(object.as_range().at(static_cast<int64_t>(*at))))
              : std::nullopt;
  }
  return std::nullopt;
}

struct Steps {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t count = 0;
};

int64_t slice_index(const Value& value) {
  require_defined(value);
  if (!value.is_integral()) {
    throw Failure("slice indices must be integers or None, found '" + value.type_name() + "'");
  }
  return value.as_int();
}

// A bound of a slice: counted from the end if negative, and clamped.
int64_t bound(const Value& value, int64_t size, int64_t low, int64_t otherwise) {
  if (value.is_none()) {
    return otherwise;
  }
  const int64_t index = slice_index(value);
  const int64_t high = size + low;
  // Avoids overflow of index + size far out of range.
  return index < -size ? low : std::clamp(index < 0 ? index + size : index, low, high);
}

Steps resolve(const SliceBounds& bounds, size_t length) {
  const auto size = static_cast<int64_t>(length);
  Steps steps;
  steps.step = bounds.step.is_none() ? 1 : slice_index(bounds.step);
  if (steps.step == 0) {
    throw Failure("slice step cannot be zero");
  }
  const bool forward = steps.step > 0;
  const int64_t low = forward ? 0 : -1;
  steps.start = bound(bounds.start, size, low, forward ? low : size + low);
  steps.stop = bound(bounds.stop, size, low, forward ? size + low : low);
  steps.count = Range{steps.start, steps.stop, steps.step}.size();
  return steps;
}

Value slice_range(const Range& range, const SliceBounds& bounds) {
  const Steps steps = resolve(bounds, static_cast<size_t>(range.size()));
  const auto at = [&](int64_t index) {
    int64_t offset = 0;
    int64_t value = 0;
    if (__builtin_mul_overflow(index, range.step, &offset) ||
        __builtin_add_overflow(range.start, offset, &value)) {
      throw Failure("an integer is beyond 64 bits");
    }
    return value;
  };
  Range result{at(steps.start), at(steps.stop), 0};
  if (__builtin_mul_overflow(range.step, steps.step, &result.step)) {
    throw Failure("an integer is beyond 64 bits");
  }
  return Value(result);
}

Value slice_text(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  const std::string_view text = object.as_text(runtime);
  const Steps steps = resolve(bounds, count_code_points(text));
  const size_t start = byte_offset(text, static_cast<size_t>(std::max<int64_t>(steps.start, 0)));
  if (steps.step == 1) {
    const std::string_view rest = text.substr(start);
    return runtime.text(rest.substr(0, byte_offset(rest, static_cast<size_t>(steps.count))));
  }
  // From one chosen character to the next, forwards or backwards.
  TextBuilder result(runtime);
  size_t position = start;
  for (int64_t i = 0; i < steps.count; ++i) {
    size_t next = position;
    result.add_code_point(next_code_point(text, next));
    for (int64_t skipped = 0; skipped < steps.step && position < text.size(); ++skipped) {
      next_code_point(text, position);
    }
    for (int64_t skipped = 0; skipped > steps.step && position > 0; --skipped) {
      previous_code_point(text, position);
    }
  }
  return runtime.text(std::move(result));
}

Value slice_items(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  const Steps steps = resolve(bounds, object.item_count());
  ItemBuilder result(runtime);
  result.reserve(static_cast<size_t>(steps.count));
  for (int64_t i = 0; i < steps.count; ++i) {
    result.add(object.item_at(static_cast<size_t>(steps.start + i * steps.step)));
  }
  return object.is_list() ? runtime.list(std::move(result)) : runtime.tuple(std::move(result));
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (auto found = attribute(runtime, object, name)) {
    return *std::move(found);
  }
  if (object.is_dict()) {
    if (const Value* found = object.as_dict().find(runtime, name)) {
      return *found;
    }
  }
  return no_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& index) {
  if (auto found = item(runtime, object, index)) {
    return *std::move(found);
  }
  if (index.is_text()) {
    const std::string_view name = index.as_text(runtime);
    auto found = attribute(runtime, object, name);
    return found ? *std::move(found) : no_attribute(runtime, object, name);
  }
  TextBuilder shown(runtime);
  write_repr(runtime, shown, index);
  return runtime.undefined(described(object) + " has no element " +
                           std::string(shown.view().substr(0, Failure::kLongest)));
}

Value get_only_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  auto found = attribute(runtime, object, name);
  return found ? *std::move(found) : no_attribute(runtime, object, name);
}

Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  require_defined(object);
  if (object.is_text()) {
    return slice_text(runtime, object, bounds);
  }
  if (object.is_list() || object.is_tuple()) {
    return slice_items(runtime, object, bounds);
  }
  if (object.is_range()) {
    return slice_range(object.as_range(), bounds);
  }
  throw Failure(object.is_dict() ? "unhashable type: 'slice'"
                                 : "'" + object.type_name() + "' object is not subscriptable");
}

}  // namespace reprise::jinja
