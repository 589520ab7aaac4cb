// Methods of strings, lists, tuples and dicts that do not modify them.
#pragma once

#include "jinja/runtime.h"

#include <span>
#include <string_view>

namespace reprise::jinja {

struct Method {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& self, const Arguments& arguments);
};

/// Null if values of this kind have no such method here.
const Method* find_method(const Value& self, std::string_view name);

/// The entries of a dict as tuples.
ItemBuilder dict_pairs(Runtime& runtime, const Dict& dict);

/// append, update and other methods that the sandbox refuses.
bool is_mutating_method(const Value& self, std::string_view name);

/// An attribute that Python has and we do not: refused by name instead of being undefined.
bool is_python_attribute(const Value& self, std::string_view name);

// The methods of strings, one table per file.
std::span<const Method> string_methods();
std::span<const Method> string_search_methods();

}  // namespace reprise::jinja
