// Filters that apply a filter or a test to each item: map, select, reject, selectattr and
// rejectattr. They return lazy generators.
#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/tests.h"
#include "jinja/values/attribute_getter.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"

#include <array>
#include <functional>
#include <memory>

namespace reprise::jinja {
namespace {

using Mapping = std::function<Value(Runtime&, const Value&)>;

Arguments from_position(const Arguments& arguments, size_t first) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(first));
  return rest;
}

std::string name_of(const Value& value, const char* what) {
  if (!value.is_text()) {
    throw Failure(std::string("expected the name of a ") + what + ", found '" + value.type_name() +
                  "'");
  }
  return value.as_text();
}

Mapping attribute_mapping(const Arguments& arguments) {
  ArgumentReader reader("map", arguments, {"attribute", "default"});
  const Value attribute = reader.required();
  const AttributeGetter getter(attribute, Case::Kept, reader.optional());
  return [getter](Runtime& runtime, const Value& item) { return getter.get(runtime, item); };
}

Mapping filter_mapping(const Arguments& arguments) {
  if (arguments.positional.empty()) {
    throw Failure("map requires a filter argument");
  }
  const std::string name = name_of(arguments.positional[0], "filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr) {
    throw Failure("No filter named '" + name + "'.");
  }
  return [filter, rest = from_position(arguments, 1)](Runtime& runtime, const Value& item) {
    return filter->apply(runtime, item, rest);
  };
}

bool names_attribute(const Arguments& arguments) {
  for (const auto& [name, value] : arguments.keyword) {
    if (name == "attribute") {
      return arguments.positional.empty();
    }
  }
  return false;
}

// A generator over `subject` that is set up when its first item is requested.
template <class Prepare, class Step>
Value lazily(Runtime& runtime, const Value& subject, const Prepare& prepare, const Step& step) {
  if (!is_true(subject)) {
    return make_iterator_over(runtime, "generator", {});
  }
  struct State {
    std::optional<Cursor> cursor;
    decltype(prepare()) function;
  };
  auto state = std::make_shared<State>();
  return make_iterator(
      runtime, "generator", [subject, prepare, step, state](Runtime& inner, Value& item) {
        if (!state->cursor) {
          state->function = prepare();
          state->cursor.emplace(inner, subject);
        }
        return step(inner, *state->cursor, state->function, item);
      });
}

Value mapped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return lazily(
      runtime,
      subject,
      [arguments] {
        return names_attribute(arguments) ? attribute_mapping(arguments)
                                          : filter_mapping(arguments);
      },
      [](Runtime& inner, Cursor& cursor, const Mapping& mapping, Value& item) {
        Value next;
        if (!cursor.next(next)) {
          return false;
        }
        item = mapping(inner, next);
        return true;
      });
}

using Predicate = std::function<bool(Runtime&, const Value&)>;

Predicate make_predicate(const Arguments& arguments, bool by_attribute) {
  if (by_attribute && arguments.positional.empty()) {
    throw Failure("Missing parameter for attribute name");
  }
  const AttributeGetter getter(by_attribute ? std::optional<Value>(arguments.positional[0])
                                            : std::nullopt);
  const size_t at = by_attribute ? 1 : 0;
  if (arguments.positional.size() <= at) {
    return [getter](Runtime& runtime, const Value& item) {
      return is_true(getter.get(runtime, item));
    };
  }
  const std::string name = name_of(arguments.positional[at], "test");
  const Test* test = find_test(name);
  if (test == nullptr) {
    throw Failure("No test named '" + name + "'.");
  }
  return
      [getter, test, rest = from_position(arguments, at + 1)](Runtime& runtime, const Value& item) {
        return test->apply(runtime, getter.get(runtime, item), rest);
      };
}

template <bool wanted, bool by_attribute>
Value selected(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return lazily(
      runtime,
      subject,
      [arguments] { return make_predicate(arguments, by_attribute); },
      [](Runtime& inner, Cursor& cursor, const Predicate& predicate, Value& item) {
        while (cursor.next(item)) {
          if (predicate(inner, item) == wanted) {
            return true;
          }
        }
        return false;
      });
}

constexpr auto kSelectionFilters = std::to_array<Filter>({
    {"map", mapped},
    {"reject", selected<false, false>},
    {"rejectattr", selected<false, true>},
    {"select", selected<true, false>},
    {"selectattr", selected<true, true>},
});

}  // namespace

std::span<const Filter> selection_filters() {
  return kSelectionFilters;
}

}  // namespace reprise::jinja
