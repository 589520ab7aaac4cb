// Filters that apply a filter or a test to each item: map, select, reject, selectattr and
// rejectattr. They return lazy generators.
#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/tests.h"
#include "jinja/values/attribute_getter.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"

#include <array>
#include <functional>
#include <memory>

namespace reprise::jinja {
namespace {

using Mapping = std::function<Value(Runtime&, const Value&)>;

/// The arguments of the filter or test that is applied, shared by the functions that use them.
using SharedArguments = std::shared_ptr<const Arguments>;

SharedArguments copy_from(Runtime& runtime, const Arguments& arguments, size_t first) {
  auto rest = std::make_shared<Arguments>();
  ItemBuilder positional(runtime);
  for (size_t i = first; i < arguments.positional.size(); ++i) {
    positional.add(arguments.positional[i]);
  }
  rest->positional = positional.take();
  for (const auto& [name, value] : arguments.keyword) {
    runtime.charge(name.size() + 2 * sizeof(arguments.keyword[0]));
    rest->keyword.emplace_back(name, value);
  }
  return rest;
}

std::string_view name_of(Runtime& runtime, const Value& value, const char* what) {
  if (!value.is_text()) {
    throw Failure(std::string("expected the name of a ") + what + ", found '" + value.type_name() +
                  "'");
  }
  return value.as_text(runtime);
}

Mapping attribute_mapping(Runtime& runtime, const Arguments& arguments) {
  ArgumentReader reader(runtime, "map", arguments, {"attribute", "default"});
  const Value attribute = reader.required();
  const auto getter =
      std::make_shared<AttributeGetter>(runtime, attribute, Case::Kept, reader.optional());
  return [getter](Runtime& inner, const Value& item) { return getter->get(inner, item); };
}

Mapping filter_mapping(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    throw Failure("map requires a filter argument");
  }
  const std::string_view name = name_of(runtime, arguments.positional[0], "filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr) {
    throw Failure("No filter named " + quote(name) + ".");
  }
  return [filter, rest = copy_from(runtime, arguments, 1)](Runtime& inner, const Value& item) {
    return filter->apply(inner, item, *rest);
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
    return make_iterator_over(runtime, "generator", ItemBuilder(runtime));
  }
  struct State {
    std::optional<Cursor> cursor;
    decltype(prepare(runtime)) function;
  };
  auto state = std::make_shared<State>();
  return make_iterator(
      runtime, "generator", [subject, prepare, step, state](Runtime& inner, Value& item) {
        if (!state->cursor) {
          state->function = prepare(inner);
          state->cursor.emplace(inner, subject);
        }
        return step(inner, *state->cursor, state->function, item);
      });
}

Value mapped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return lazily(
      runtime,
      subject,
      [shared = copy_from(runtime, arguments, 0)](Runtime& inner) {
        return names_attribute(*shared) ? attribute_mapping(inner, *shared)
                                        : filter_mapping(inner, *shared);
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

Predicate make_predicate(Runtime& runtime, const Arguments& arguments, bool by_attribute) {
  if (by_attribute && arguments.positional.empty()) {
    throw Failure("Missing parameter for attribute name");
  }
  const auto getter = std::make_shared<AttributeGetter>(
      runtime, by_attribute ? std::optional<Value>(arguments.positional[0]) : std::nullopt);
  const size_t at = by_attribute ? 1 : 0;
  if (arguments.positional.size() <= at) {
    return
        [getter](Runtime& inner, const Value& item) { return is_true(getter->get(inner, item)); };
  }
  const std::string_view name = name_of(runtime, arguments.positional[at], "test");
  const Test* test = find_test(name);
  if (test == nullptr) {
    throw Failure("No test named " + quote(name) + ".");
  }
  return [getter, test, rest = copy_from(runtime, arguments, at + 1)](Runtime& inner,
                                                                      const Value& item) {
    return test->apply(inner, getter->get(inner, item), *rest);
  };
}

template <bool wanted, bool by_attribute>
Value selected(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return lazily(
      runtime,
      subject,
      [shared = copy_from(runtime, arguments, 0)](Runtime& inner) {
        return make_predicate(inner, *shared, by_attribute);
      },
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
