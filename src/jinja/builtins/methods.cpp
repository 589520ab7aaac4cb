// Methods of containers, and the names of Python attributes that are not supported.
#include "jinja/builtins/methods.h"

#include "jinja/arguments.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"

#include <algorithm>
#include <array>

namespace reprise::jinja {
namespace {

Value dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "get", arguments, {"/key", "/default"});
  const Value key = reader.required();
  const auto otherwise = reader.optional();
  const Value* found = self.as_dict().find(runtime, key);
  return found != nullptr ? *found : otherwise.value_or(Value());
}

Value make_view(Runtime& runtime, const char* type, ItemBuilder items) {
  return Value(
      std::shared_ptr<Object>(runtime.make<DictView>(type, runtime.list(std::move(items)))));
}

Value dict_keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("keys", arguments);
  return make_view(runtime, "dict_keys", to_items(runtime, self));
}

Value dict_values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("values", arguments);
  ItemBuilder values(runtime);
  for (const auto& [key, value] : self.as_dict().entries(runtime)) {
    values.add(value);
  }
  return make_view(runtime, "dict_values", std::move(values));
}

Value dict_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("items", arguments);
  return make_view(runtime, "dict_items", dict_pairs(runtime, self.as_dict()));
}

Value copy(Runtime&, const Value& self, const Arguments& arguments) {
  refuse_arguments("copy", arguments);
  return self;
}

Value list_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "index", arguments, {"/value", "/start", "/stop"});
  const Value wanted = reader.required();
  const auto size = static_cast<int64_t>(self.item_count());
  const auto clamp = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 && index >= -size ? index + size : index, 0, size);
  };
  const int64_t start = clamp(reader.optional_int(0));
  const int64_t stop = clamp(reader.optional_int(size));
  for (int64_t i = start; i < stop; ++i) {
    if (is_equal(runtime, self.item_at(static_cast<size_t>(i)), wanted)) {
      return Value(i);
    }
  }
  TextBuilder shown(runtime);
  write_repr(runtime, shown, wanted);
  throw Failure(std::string(shown.view().substr(0, Failure::kLongest / 2)) + " is not in " +
                self.type_name());
}

Value list_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "count", arguments, {"/value"});
  const Value wanted = reader.required();
  const auto& items = self.items(runtime);
  return Value(
      static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return is_equal(runtime, item, wanted);
      })));
}

constexpr auto kDictMethods = std::to_array<Method>({
    {"get", dict_get},
    {"keys", dict_keys},
    {"values", dict_values},
    {"items", dict_items},
    {"copy", copy},
});

constexpr auto kListMethods = std::to_array<Method>({
    {"index", list_index},
    {"count", list_count},
    {"copy", copy},
});

constexpr auto kTupleMethods =
    std::to_array<Method>({{"index", list_index}, {"count", list_count}});

constexpr auto kListMutators = std::to_array<std::string_view>(
    {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
constexpr auto kDictMutators =
    std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});

constexpr auto kStringOthers = std::to_array<std::string_view>({"encode",
                                                                "format_map",
                                                                "isascii",
                                                                "isidentifier",
                                                                "isnumeric",
                                                                "isprintable",
                                                                "maketrans",
                                                                "translate"});
constexpr auto kIntOthers = std::to_array<std::string_view>({"as_integer_ratio",
                                                             "bit_count",
                                                             "bit_length",
                                                             "conjugate",
                                                             "denominator",
                                                             "from_bytes",
                                                             "imag",
                                                             "numerator",
                                                             "real",
                                                             "to_bytes"});
constexpr auto kFloatOthers = std::to_array<std::string_view>(
    {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "is_integer", "real"});
constexpr auto kRangeOthers =
    std::to_array<std::string_view>({"count", "index", "start", "step", "stop"});

const Method* find_in(std::span<const Method> table, std::string_view name) {
  const auto found = std::find_if(
      table.begin(), table.end(), [&](const Method& method) { return method.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <class Table>
bool holds(const Table& table, std::string_view name) {
  return std::find(table.begin(), table.end(), name) != table.end();
}

}  // namespace

ItemBuilder dict_pairs(Runtime& runtime, const Dict& dict) {
  ItemBuilder pairs(runtime);
  for (const auto& [key, value] : dict.entries(runtime)) {
    pairs.add(runtime.pair(key, value));
  }
  return pairs;
}

const Method* find_method(const Value& self, std::string_view name) {
  if (self.is_text()) {
    const Method* found = find_in(string_methods(), name);
    return found != nullptr ? found : find_in(string_search_methods(), name);
  }
  if (self.is_dict()) {
    return find_in(kDictMethods, name);
  }
  if (self.is_list()) {
    return find_in(kListMethods, name);
  }
  return self.is_tuple() ? find_in(kTupleMethods, name) : nullptr;
}

bool is_mutating_method(const Value& self, std::string_view name) {
  return (self.is_list() && holds(kListMutators, name)) ||
         (self.is_dict() && holds(kDictMutators, name));
}

bool is_python_attribute(const Value& self, std::string_view name) {
  if (name.starts_with("__")) {
    return name == "__class__" || name == "__doc__" || name == "__init__" || name == "__len__" ||
           name == "__iter__" || name == "__getitem__" || name == "__dict__";
  }
  if (self.is_text()) {
    return holds(kStringOthers, name);
  }
  if (self.is_integral()) {
    return holds(kIntOthers, name);
  }
  if (self.is_float()) {
    return holds(kFloatOthers, name);
  }
  return (self.is_range() && holds(kRangeOthers, name)) || (self.is_dict() && name == "fromkeys");
}

}  // namespace reprise::jinja
